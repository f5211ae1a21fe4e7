"""What the probe finds of a model, as plain data. Imports without torch."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """What decides the figures beside the model."""

    windows: int = 64
    """Validation windows, the first half and the second being the two disjoint texts of `replication`."""
    slices: int = 4
    """Of the width, S; they must divide it."""
    draws: int = 8
    """Random queries of each site's norm, of which the null is the mean."""
    seed: int = 0
    """Of these draws."""


@dataclass(frozen=True)
class Site:
    """One read of two sources or more. Site 0 is the first sublayer; where the head reads, it is the last."""

    site: int
    sources: int
    disagreement: float
    """Mean KL of a slice's distribution over depth to the shared one, nats."""
    null: float
    """The same for random queries of the trained query's norm."""
    entropy: float
    """Of the model's own weights, mean over tokens and heads, nats."""
    top_source: int
    """The source of largest mean weight; 0 is the oldest, the embedding where the stream has one there."""
    oldest_weight: float
    """Mean weight of source 0."""
    weights: tuple[tuple[float, ...], ...]
    """Mean over tokens of the model's own weights, a row for each source, a column for each head."""


@dataclass(frozen=True)
class Figures:
    """Of one model. Means over sites count every site of two sources or more alike."""

    settings: Settings
    heads: int
    """Columns of the weights: the model's routing heads; its slices where it has one head."""
    tokens: int
    sites: tuple[Site, ...]
    collinearity: float
    """Mean cosine of two sources, at the last site."""
    replication: float | None
    """Pearson's r of the head-deviation maps of two disjoint texts."""
    cross_head: float | None
    """Mean of Pearson's r between the maps of two heads."""

    @property
    def disagreement(self) -> float:
        return sum(site.disagreement for site in self.sites) / len(self.sites)

    @property
    def null(self) -> float:
        return sum(site.null for site in self.sites) / len(self.sites)

    @property
    def excess(self) -> float:
        """What training put into the disagreement, beyond random queries of the same norm."""
        return self.disagreement - self.null

    @property
    def late_oldest_weight(self) -> float:
        """Mean weight of source 0 over the last quarter of the sites, at least one."""
        late = self.sites[-max(1, len(self.sites) // 4) :]
        return sum(site.oldest_weight for site in late) / len(late)

    def measurements(self) -> dict[str, float | None]:
        """One number each, by the names they have in the store."""
        return {
            "probe.disagreement": self.disagreement,
            "probe.null": self.null,
            "probe.excess": self.excess,
            "probe.collinearity": self.collinearity,
            "probe.replication": self.replication,
            "probe.cross_head": self.cross_head,
            "probe.late_oldest_weight": self.late_oldest_weight,
            "probe.entropy": sum(site.entropy for site in self.sites) / len(self.sites),
            "probe.sources": float(self.sites[-1].sources),
        }

    def to_record(self) -> dict[str, Any]:
        """All of it as plain data, for a JSON file."""
        return {**asdict(self), "measurements": self.measurements()}
