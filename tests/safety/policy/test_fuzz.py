"""Quoting turns no deny into an allow and no allow into a deny; words are those of bash."""

from __future__ import annotations

import shlex
import subprocess
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitswarm.records.safety import Allow, Deny
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.paths import Scope
from gitswarm.safety.policy.shell_words import SimpleCommand, read_line

DENIED = """git push|git push origin HEAD:main|git -C . push|git commit -m 'a b'|git reset --hard|rm -rf ..
rm -rf .git|sudo id|npm publish|gh pr merge 1|ssh host id|tee /etc/x|claude -p x|pre-commit install
cat /home/dev/.ssh/id_rsa"""
ALLOWED = """git status --short|git log --oneline -5|git diff HEAD -- 'src/a b.py'|ls -la src|npm test|rm -rf build
pytest -k 'not slow' tests|cp a src/b|sed -i s/a/b/ src/a.py|grep -rn 'git push' src|cargo test -- --nocapture"""
PREFIXES = "|env |env A=1 |command |exec |A=1 |nohup |timeout 5 |nice -n 5 |> /dev/null |time |xargs |npx |uv run "
WRAPS = """<> &|time <>|! <>|( <> )|{ <>; }|true && <>|ls \\| <>|<> \\| cat|<> > /dev/null 2>&1|if true; then <>; fi
for i in 1; do <>; done|while <>; do :; done|echo $( <> )|echo "$( <> )"|cat <( <> )|[[ -n $( <> ) ]]
X=$( <> )"""
SCRIPTS = "sh -c <>|bash -lc <>|bash -eo pipefail -c <>|eval <>|trap <> EXIT"
_PIECES = r"""a git é - / . : = % @ ~ # ' " \ $ * { } , '' "" 'a b' "a b" \$ \\ \' \" \n '\' "\"" "\n" "'" '"'
$'a\tb' $'\x67' $'\147it' $'\'q' $'é' $"a" {a,b} {1..3} {a} {,} $X ${X} "$X" "${X}"
$(echo q) "$(echo q r)" `echo s`"""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-")
_COMMON = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _many(text: str) -> list[str]:
    """Apart by bars and lines; a bar with a backslash is one."""
    parts = text.replace("\\|", "\0").replace("\n", "|").split("|")
    return [part.replace("\0", "|") for part in parts]


def _quoted(text: str, chance: Random) -> str:
    """`text` as a word, every letter quoted in some way."""
    out = chance.choice(["", "''", '""']) if text else "''"
    for letter in text:
        ways = [f"'{letter}'" if letter != "'" else '"\'"', f"$'\\x{ord(letter):02x}'", f"$'\\{ord(letter):03o}'"]
        ways.append(f'"{letter}"' if letter not in '"$`\\' else f"\\{letter}")
        ways += [letter, letter, letter + "''", f"\\{letter}"] if letter in _PLAIN else []
        out += chance.choice(ways)
    return out


def _line(command: str, chance: Random) -> str:
    words = [_quoted(word, chance) for word in shlex.split(command)]
    return "".join(word + chance.choice([" ", "  ", "\t", " \\\n "]) for word in words)


def _wrapped(command: str, chance: Random) -> str:
    text = chance.choice(_many(PREFIXES)) + _line(command, chance)
    for _ in range(chance.randint(0, 2)):
        text = chance.choice(_many(WRAPS)).replace("<>", text)
    if chance.random() < 0.4:
        text = chance.choice(_many(SCRIPTS)).replace("<>", shlex.quote(text))
    return chance.choice(_many(WRAPS)).replace("<>", text)


@given(command=st.sampled_from(_many(DENIED)), seed=st.integers(0, 2**40))
@settings(_COMMON, max_examples=400)
def test_no_quoting_or_wrapping_makes_a_denied_command_allowed(command: str, seed: int, writer: Scope) -> None:
    text = _wrapped(command.replace("/home/dev", str(writer.home)), Random(seed))

    assert isinstance(decide("Bash", {"command": text}, writer), Deny), text


@pytest.mark.soak
def test_no_quoting_or_wrapping_makes_any_denied_command_allowed(writer: Scope) -> None:
    chance, home = Random(20261121), str(writer.home)
    texts = [_wrapped(chance.choice(_many(DENIED)).replace("/home/dev", home), chance) for _ in range(20_000)]

    assert [text for text in texts if not isinstance(decide("Bash", {"command": text}, writer), Deny)] == []


@given(command=st.sampled_from(_many(ALLOWED)), seed=st.integers(0, 2**40))
@settings(_COMMON, max_examples=200)
def test_harmless_quoting_makes_no_allowed_command_denied(command: str, seed: int, writer: Scope) -> None:
    text = _line(command, Random(seed))

    assert isinstance(decide("Bash", {"command": text}, writer), Allow), text


@given(st.lists(st.sampled_from([*"git push rm -rf /.;&|<>(){}$`'\"\\\n\t*?[]~=#!%@,:é\0\r", "$(", "<<E\n", "do "])))
@settings(_COMMON, max_examples=400)
def test_every_text_gets_a_verdict(writer: Scope, pieces: list[str]) -> None:
    assert isinstance(decide("Bash", {"command": "".join(pieces)}, writer), (Allow, Deny))


@pytest.mark.processes
@given(line=st.lists(st.sampled_from(_PIECES.split()), min_size=1, max_size=7).map("".join))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_known_words_are_those_of_bash(line: str) -> None:
    env = {"HOME": "/home/dev", "X": "git"}
    text = f"printf '%s\\0' w {line}"
    bash = ["bash", "--norc", "-c", text]
    done = subprocess.run(bash, capture_output=True, check=False, cwd="/", env={**env, "LC_ALL": "C.UTF-8"})
    first, *_ = [*read_line(text, env).commands, SimpleCommand(())]
    read = [word.known for word in first.words[2:]]
    if done.returncode or done.stderr or not read or None in read or line.endswith("\\"):
        return

    assert read == done.stdout.decode(errors="replace").split("\0")[:-1], shlex.quote(line)
