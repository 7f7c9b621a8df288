"""Moves a tenant, and kills itself at a step: ``moving.py CLUSTERS TENANT TARGET STEP``, with the clusters' URLs as JSON and
the beginning of what is reported at the step."""

import asyncio
import json
import os
import signal
import sys

from layerlore.storage.drivers.postgres.tenant_move import ClusterUrls, move_tenant


async def main(clusters: dict[str, str], tenant: str, target: str, last: str) -> None:
    def report(step: str) -> None:
        if step.startswith(last):
            os.kill(os.getpid(), signal.SIGKILL)

    await move_tenant({name: ClusterUrls(url, url) for name, url in clusters.items()}, tenant, target, report)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]))
