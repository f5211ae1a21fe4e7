"""The same work done by MLflow, run by an interpreter that has it: prints JSON. Imports nothing of ours."""

import json
import logging
import sys
import tempfile
import time

EVALUATIONS = 41


def main(jobs: int, store: str | None) -> dict[str, object]:
    """Log `jobs` runs, then find and group them as its documentation does; on a SQLite file of its own where
    no other `store` is named."""
    import mlflow
    from mlflow.entities import Metric, Param

    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(store or f"sqlite:///{folder}/mlflow.db")
        client = mlflow.MlflowClient()
        experiment = client.create_experiment("bench", artifact_location=f"file://{folder}/artifacts")
        batches, whole = [], []
        for job in range(jobs):
            begun = time.perf_counter()
            run = client.create_run(experiment)
            metrics = [Metric("loss", 3.4 + job / 1e4 + n / 1e5, 1000 + n, n) for n in range(EVALUATIONS)]
            params = [Param("heads", str(job % 5)), Param("kv_heads", str(job // 5 % 5))]
            params += [Param("lr", str(job // 25 % 16)), Param("seed", str(job // 400))]
            middle = time.perf_counter()
            client.log_batch(run.info.run_id, metrics=metrics, params=params)
            batches.append(1000 * (time.perf_counter() - middle))
            client.set_terminated(run.info.run_id)
            whole.append(1000 * (time.perf_counter() - begun))
        grouped = []
        for _ in range(3):
            begun = time.perf_counter()
            found = mlflow.search_runs([experiment], max_results=jobs)
            keys = ["params.heads", "params.kv_heads", "params.lr"]
            table = found.groupby(keys)["metrics.loss"].agg(["mean", "std", "count"])
            grouped.append(1000 * (time.perf_counter() - begun))
            assert table["count"].sum() == jobs
    return {"version": mlflow.__version__, "batch_ms": batches, "run_ms": whole, "grouped_ms": grouped}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)))
