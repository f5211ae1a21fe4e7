"""A cluster that Ray's own autoscaler grows and shrinks, with nodes that are processes on this machine."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home, ended, trained_alone, wait_for
from ray_nodes import Nodes, ray_nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """A head alone, beside which there may be two nodes of one processor each."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    worker = {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}
    head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
    config = {
        "cluster_name": "drill",
        "max_workers": 2,
        "idle_timeout_minutes": 0.1,
        "provider": {
            "type": "fake_multinode",
            "use_node_id_as_ip": True,
            "gcs_address": f"127.0.0.1:{port}",
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {"worker": worker, "ray.head.default": head},
        "head_node_type": "ray.head.default",
        "auth": {},
        "file_mounts": {},
        **{f"{who}_commands": [] for who in ("initialization", "setup", "head_setup", "worker_setup")},
        **{f"{who}_start_ray_commands": [] for who in ("head", "worker")},
        "cluster_synced_files": [],
    }
    file = tmp_path / "autoscaler.json"
    file.write_text(json.dumps(config))
    options = (f"--port={port}", "--node-ip-address=127.0.0.1", f"--autoscaling-config={file}")
    with ray_nodes(*options, RAY_FAKE_CLUSTER="1", AUTOSCALER_UPDATE_INTERVAL_S="1") as made:
        yield made


@pytest.mark.drill
def test_the_cluster_grows_to_what_waits_and_shrinks_when_nothing_does(home: Home, nodes: Nodes) -> None:
    assert nodes.alive() == 1
    file = home.sweep(60, "resources: {max_parallel: 2}\n")
    run = home.start("run", file)
    wait_for(lambda: nodes.alive() == 3, 60)
    output, _ = ended(run, 200)
    assert run.returncode == 0, output
    assert home.rows("SELECT count(DISTINCT node) FROM attempt") == [(2,)]
    assert home.tail_means() == trained_alone(Path(file), home.folder)
    wait_for(lambda: nodes.alive() == 1, 90)
    print("from no node to 2 for 3 jobs of which 2 may run at a time, and back to none: to the bit")
