"""As many trivial jobs by Ray Tune, in a process of its own: `python -m … JOBS SLOTS FOLDER`."""

import json
import os
import sys
import time
from typing import Any

from headcount.orchestrator.bench.trivial import REPORTS


def main(jobs: int, slots: int, folder: str) -> None:
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",  # or it would leave a token in the user's folder
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # only one of them keeps reports
        "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    }
    import ray
    from ray import tune
    from ray.tune.logger import JsonLoggerCallback

    class FirstStart(tune.Callback):  # type: ignore[misc]
        at: float | None = None

        def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            FirstStart.at = FirstStart.at or time.perf_counter()

    def trivial(config: dict[str, Any]) -> None:
        for step in REPORTS:
            tune.report({"loss": 3.0 + config["seed"] / 100 + 1 / step, "step": step})

    ray.init(num_cpus=slots, include_dashboard=False, log_to_driver=False)
    tuner = tune.Tuner(
        tune.with_resources(trivial, {"cpu": 1}),
        param_space={"seed": tune.grid_search(list(range(jobs)))},
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(
            storage_path=folder, verbose=0, callbacks=[FirstStart(), JsonLoggerCallback()]
        ),
    )
    results = tuner.fit()
    assert FirstStart.at is not None
    seconds = time.perf_counter() - FirstStart.at
    assert len(results) == jobs
    assert not results.errors
    assert all(result.metrics["step"] == REPORTS[-1] for result in results)
    print(json.dumps({"seconds": seconds, "version": ray.__version__}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
