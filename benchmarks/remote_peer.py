"""Read an epoch of litdata chunks from S3; run by `benchmarks.remote` in the peers' environment.

`python -m benchmarks.remote_peer URL CACHE` prints a JSON object: `first` and `epoch`, seconds to
the first batch and to the end, and `rows`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

from benchmarks.batching import SIZE
from benchmarks.streamers import pad


def main(arguments: Sequence[str]) -> int:
    """Read a shuffled epoch in this process."""
    import litdata
    from litdata.streaming import downloader

    # litdata rejects plain HTTP, and has no public option to allow it.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    url, cache = arguments
    start = time.perf_counter()
    dataset = litdata.StreamingDataset(
        url,
        cache_dir=cache,
        shuffle=True,
        storage_options={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]},
    )
    loader = litdata.StreamingDataLoader(dataset, batch_size=SIZE, collate_fn=pad)
    first = 0.0
    rows = 0
    for batch in loader:
        first = first or time.perf_counter() - start
        rows += len(batch["input_ids"])
    print(json.dumps({"first": first, "epoch": time.perf_counter() - start, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
