"""The build steps of a Dockerfile's target as a shell script, to be run in a root of its own without Docker.

The base image is stood for by this machine's root under an overlay, and an empty virtual environment.
"""

import json
import re
import shlex
from pathlib import Path

Step = tuple[str, str]
"""An instruction and what it is given, such as `("RUN", "pip install …")`."""


def stages(recipe: str) -> dict[str, tuple[str, list[Step]]]:
    """Of each stage its parent's name and its steps. Health checks and commands are steps too."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", recipe, flags=re.MULTILINE))
    found: dict[str, tuple[str, list[Step]]] = {}
    steps: list[Step] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            steps = []
            found[name] = parent, steps
        else:
            steps.append((word, rest))
    return found


def steps_of(recipe: str, target: str) -> list[Step]:
    """The steps of a target with those of its parents, and before them those of stages it copies from."""
    all_stages = stages(recipe)
    parent, own = all_stages[target]
    before = steps_of(recipe, parent) if parent in all_stages else []
    copied = [match[1] for word, rest in own if word == "COPY" and (match := re.match(r"--from=(\w+)", rest))]
    return [*(step for name in copied for step in steps_of(recipe, name)), *before, *own]


def last(steps: list[Step], word: str) -> list[str]:
    """The words of the last `CMD` or `HEALTHCHECK`."""
    rest = [given for name, given in steps if name == word][-1]
    words: list[str] = json.loads(rest[rest.index("[") :])
    return words


def environment_of(steps: list[Step]) -> dict[str, str]:
    return dict(pair.split("=", 1) for word, rest in steps if word == "ENV" for pair in shlex.split(rest))


def script(steps: list[Step], kept: list[str], source: Path) -> str:
    """Shell lines that carry the steps out in the folder `$ROOT`; `kept` are the files of the build."""
    lines, folder, user = [], "/", ""
    variables = " ".join(f"export {name}={shlex.quote(v)};" for name, v in environment_of(steps).items())
    for word, rest in steps:
        if word == "WORKDIR":
            folder = rest
            lines.append(f"mkdir -p $ROOT{folder}")
        elif word == "USER":
            user = f"--userspec={rest}:{rest} "
        elif word == "COPY":
            *sources, target = [part for part in rest.split() if not part.startswith("--")]
            into = f"$ROOT{target}" if target.startswith("/") else f"$ROOT{folder}/"
            lines.append(f"mkdir -p {into}")
            if "--from=" in rest:
                lines.append(f"cp -r $ROOT{sources[0]}. {into}")
            else:
                names = kept if sources == ["."] else sources
                lines += [f"cp -r {shlex.quote(str(source / name))} {into}" for name in names]
        elif word == "RUN":
            rest = rest.replace("--no-cache-dir ", "")  # what was fetched before need not be again
            lines.append(f"chroot {user}$ROOT sh -ec {shlex.quote(f'{variables} cd {folder}; {rest}')}")
        else:
            assert word in ("ARG", "LABEL", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"), word
    return "\n".join(lines)
