"""Makes wealth.csv: streams, and the capital of the positive side by confseq's betting martingale with aGRAPA's bets.

Run by hand, with the sources of confseq 0.0.11 (PyPI; its C++ part does not compile with a CMake of today, and is not
needed): with NumPy 1: PYTHONPATH=confseq-0.0.11/src python3 streams.py > wealth.csv
"""

import numpy as np
from confseq.betting import betting_mart
from confseq.betting_strategies import lambda_aKelly

rng = np.random.default_rng(33)
COUNT = 120
STREAMS = {
    "null": rng.uniform(0, 1, COUNT),
    "rise": rng.beta(12, 8, COUNT),
    "fall": rng.beta(8, 12, COUNT),
    "sparse": np.where(rng.uniform(0, 1, COUNT) < 0.15, rng.uniform(0.4, 1, COUNT), 0.5),
}


def bets(x, m):
    """The bets of aGRAPA for "the mean is at most m": none is negative."""
    return np.maximum(lambda_aKelly(x, m), 0)


print("stream,observation,log_wealth")
for name, stream in STREAMS.items():
    wealth = betting_mart(stream, 0.5, lambdas_fn_positive=bets, theta=1, trunc_scale=0.9)
    for observation, capital in zip(stream, wealth, strict=True):
        print(f"{name},{observation!r},{np.log(capital)!r}".replace("np.float64(", "").replace(")", ""))
