"""Each image's build steps, carried out in a root of its own, and then its command until its health check."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from clone import copy_clone
from dockerfile import environment_of, last, script, steps_of

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "docker/Dockerfile").read_text()
SERVICES = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]

_ROOT = """
mount -t tmpfs tmpfs $BASE
mkdir $BASE/upper $BASE/work $BASE/root
mount -t overlay overlay -o lowerdir=/,upperdir=$BASE/upper,workdir=$BASE/work $BASE/root
ROOT=$BASE/root
mount --rbind /dev $ROOT/dev
mount -t proc proc $ROOT/proc
mount -t tmpfs -o mode=1777 tmpfs $ROOT/tmp
rm -rf $ROOT/var/lib/headcount $ROOT/opt/headcount $ROOT/source $ROOT/wheels
way=$PYTHON
while [ $way != / ]; do chmod a+rx $ROOT$way; way=$(dirname $way); done
chroot $ROOT $PYTHON -m venv /usr/local/python
export PATH=/usr/local/python/bin:$PATH
"""
"""A machine like this one, on which an image's Python has nothing installed and all may use it."""

_RUN = """
ip link set lo up
echo 127.0.0.1 ray-head >> $ROOT/etc/hosts
as() {{ chroot --userspec=10001:10001 $ROOT sh -ec '{variables} cd /home/headcount; exec "$@"' sh "$@"; }}
{before}
as {command} &
started=$!
until as {check}; do kill -0 $started; sleep 1; done
{after}
kill -0 $started
"""
"""The image's command, as its user, on a machine without a network."""

BEFORE = {
    "service": "as headcount token create ada --scope admin",
    "worker": f"as {shlex.join(SERVICES['ray-head']['command'])} &\n"
    f"until as {shlex.join(SERVICES['ray-head']['healthcheck']['test'][1:])}; do sleep 1; done",
}
"""What the command needs: somebody with a token, or a head."""

_JOINED = """
import sys, time, ray, triton, headcount.trainer.loop
assert headcount.__file__.startswith("/usr/local/python/")
ray.init("ray-head:6379", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < 2:
    time.sleep(0.5)
"""

AFTER = {
    "service": "as headcount db check",
    "worker": f"as python -c {shlex.quote(_JOINED)}",
}


@pytest.mark.parametrize("target", ["service", "worker"])
def test_the_steps_of_an_image_make_what_its_command_needs(target: str, tmp_path: Path) -> None:
    source = copy_clone(tmp_path / "source")
    steps = steps_of(RECIPE, target)
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    variables = environment_of(steps) | {"HOME": "/home/headcount"}
    run = _RUN.format(
        variables=" ".join(f"export {name}={value};" for name, value in variables.items()),
        before=BEFORE[target],
        command=shlex.join(last(steps, "CMD")),
        check=shlex.join(last(steps, "HEALTHCHECK")),
        after=AFTER[target],
    )
    (tmp_path / "run").write_text(run)
    whole = f"{_ROOT}{script(steps, kept, source)}\nexport ROOT\nunshare --net sh -e {tmp_path}/run\n"
    base = tmp_path / "base"
    base.mkdir()
    python = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", whole],
        env={**os.environ, "BASE": str(base), "PYTHON": python, "PYTHONNOUSERSITE": "1"},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
