"""`headcount data`: the trainer's commands about data sets, and the one that hands a set to a cluster."""

import click

from headcount.trainer.commands import data as of_the_trainer

data = click.Group("data", dict(of_the_trainer.commands), help=of_the_trainer.help)


@data.command()
@click.argument("name")
def publish(name: str) -> None:
    """Put a registered data set at the artifacts' address, from where every node fetches it.

    Needed once for a set that a sweep sent to a service names, where HEADCOUNT_ARTIFACTS is an address and
    nodes share no disk. The other commands put there what their sweep trains on by themselves.
    """
    from headcount.orchestrator.artifacts.address import Artifacts
    from headcount.orchestrator.artifacts.datasets import publish as put
    from headcount.orchestrator.settings import load_settings
    from headcount.trainer.data.names import get_named
    from headcount.trainer.errors import UserError

    settings = load_settings()
    if settings.artifacts_url is None:
        raise UserError(
            f"HEADCOUNT_ARTIFACTS is a folder ({settings.artifacts}): nodes read data sets from the home "
            "that they share, and nothing is to be published"
        )
    manifest = get_named(name, settings.home)
    is_new = put(manifest, settings.home, Artifacts(settings.artifacts_url), name)
    what = "sent" if is_new else "there already"
    click.echo(f"{name} ({manifest.fingerprint[:12]}): {what}, {settings.artifacts_url}")
