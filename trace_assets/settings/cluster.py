"""Where work is done: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

from typing import Literal

from trace_assets.settings.section import Section


class Cluster(Section):
    """Where the items of a sync are made. Changes no result, only where and how fast."""

    engine: Literal["local", "ray"] = "local"
    """`local`: processes of this machine. `ray`: tasks on the nodes of a Ray cluster, on a home that all of
    them see under one path; needs the extra `cluster`."""
    address: str = ""
    """Of the cluster, such as `10.0.0.1:6379`; empty: `RAY_ADDRESS`, or that which this machine is in."""
    database: str = ""
    """Postgres that holds leases, due marks, the processes at work and the account of model calls, such as
    `postgresql://db:5432/trace` (user and password: PGUSER and PGPASSWORD, or `~/.pgpass`); empty: files of
    the home do. The home keeps the address: once given, it holds for every command. Needs the extra
    `cluster`."""
