"""Makes the tree ready to be published: `python -m tools.release https://HOST/OWNER/NAME vX.Y.Z`.

Run by the release workflow before the build; the changed files are not committed. The README of a package
index stands alone, so its links to files of the repository become addresses at the released tag. The
addresses of the project stand in no committed file: a fork publishes its own. Refuses a tag that is not the
version of pyproject.toml, or whose changes CHANGELOG.md does not list.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A link or picture whose target is a file of the repository, with or without a section.
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)]+)\)")
CLASSIFIERS = "\nclassifiers = ["


def absolute_links(readme: str, address: str, tag: str) -> str:
    """Return the README with every relative link as an address at the tag."""
    return LINK.sub(rf"]({address}/blob/{tag}/\1)", readme)


def with_addresses(pyproject: str, address: str) -> str:
    """Return pyproject.toml with the addresses of the repository as project.urls."""
    pages = {
        "Homepage": address,
        "Documentation": f"{address}/tree/main/docs",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
        "Source": address,
    }
    fields = ", ".join(f'{name} = "{page}"' for name, page in pages.items())
    return pyproject.replace(CLASSIFIERS, f"\nurls = {{ {fields} }}{CLASSIFIERS}", 1)


def mismatch(pyproject: str, changelog: str, tag: str) -> str | None:
    """Return why this tag may not be released, or None."""
    version = tomllib.loads(pyproject)["project"]["version"]
    if tag != f"v{version}":
        return f"the tag is {tag}, but pyproject.toml has the version {version}"
    if f"\n## [{version}]" not in changelog:
        return f"CHANGELOG.md has no section [{version}]"
    return None


def main(address: str, tag: str) -> int:
    """Rewrite README.md and pyproject.toml in place; return the exit code."""
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    if reason := mismatch(text, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), tag):
        print(reason, file=sys.stderr)
        return 1
    readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), address, tag), encoding="utf-8")
    project.write_text(with_addresses(text, address), encoding="utf-8")
    print(f"{tag}: links of README.md and addresses of pyproject.toml are those of {address}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - the program and its two arguments
        sys.exit((__doc__ or "").partition("\n")[0])
    sys.exit(main(sys.argv[1].rstrip("/"), sys.argv[2]))
