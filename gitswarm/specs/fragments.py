"""Pieces of prompt text that several roles share, and variables in authored text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gitswarm.errors import SpecError
from gitswarm.specs.yaml_source import did_you_mean

_MARK = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_FRAGMENT = "fragment:"


class Expanded(Struct, frozen=True):
    """Text without marks; `used` are the fragments in it, in the order of their first use."""

    text: str
    used: tuple[str, ...]


class Fragments(Struct, frozen=True):
    """Texts by path without suffix: `common/evidence`."""

    texts: Mapping[str, str]

    def expand(self, text: str, variables: Mapping[str, str], where: str) -> Expanded:
        """Replaces `{{fragment:path}}` by that fragment, nested ones too, and `{{name}}` by its variable.

        What a variable holds is not looked at again: nobody's data can pull a fragment in.

        :param where: what the text belongs to, for errors.
        :raises SpecError: an unknown fragment or variable, or a fragment that contains itself.
        """
        used: dict[str, None] = {}
        return Expanded(self._expand(text, variables, (where,), used), tuple(used))

    def _expand(self, text: str, variables: Mapping[str, str], around: tuple[str, ...], used: dict[str, None]) -> str:
        def replacement(mark: re.Match[str]) -> str:
            name = mark[1]
            if name.startswith(_FRAGMENT):
                return self._fragment(name.removeprefix(_FRAGMENT).strip(), variables, around, used)
            if name not in variables:
                near = did_you_mean(name, list(variables))
                raise SpecError([f"{around[-1]}: unknown variable '{{{{{name}}}}}'{near}"])
            return variables[name]

        if "{{" in _MARK.sub("", text):
            raise SpecError([f"{around[-1]}: a '{{{{' without its '}}}}', or with nothing in between"])
        return _MARK.sub(replacement, text)

    def _fragment(
        self, name: str, variables: Mapping[str, str], around: tuple[str, ...], used: dict[str, None]
    ) -> str:
        if name not in self.texts:
            near = did_you_mean(name, list(self.texts))
            raise SpecError([f"{around[-1]}: unknown fragment '{name}'{near}"])
        here = f"fragment {name}"
        if here in around:
            raise SpecError([f"{here} contains itself: {' -> '.join(around[1:])} -> {here}"])
        used.setdefault(name)
        return self._expand(self.texts[name].strip(), variables, (*around, here), used)
