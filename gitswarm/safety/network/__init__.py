"""The way out of a sandbox: a proxy with an allow-list outside, a bridge to it inside. See docs/sandbox.md."""
