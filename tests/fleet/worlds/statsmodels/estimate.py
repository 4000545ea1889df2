"""Estimates what the later version changes by statsmodels: difference in differences with fixed effects.

Usage: estimate.py ROWS_PROGRAM ROLLOUTS WORLD… (the example `rows` of tracetee-worlds; `run` beside this file calls it)

A rate (ms in a thousand frames) of a device's day is explained by the version, by the first day after an update, by the device, and by the
day on its maker's models. Errors are clustered by device. For each world: in how many rollouts a cause or all jank of a screen seems worse
or better at 1 %, by Bonferroni's rule over all of them, without being so; in how many what truly changed is found; the mean estimate
of what changed, beside the truth.
"""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import statsmodels.api as sm

LEVEL = 0.01
# Larger values count as this quantile of those above 0.
QUANTILE = 0.99
# Rounds of taking the means of devices and days away in turn; the rest is far below an error by then.
ROUNDS = 30


def without_means(values, groups, weights):
    """Takes the weighted means of several groupings away from each column."""
    values = values - np.average(values, axis=0, weights=weights)
    totals = [np.bincount(group, weights) for group in groups]
    for _ in range(ROUNDS):
        for group, total in zip(groups, totals, strict=True):
            for column in values.T:
                means = np.bincount(group, weights * column) / np.maximum(total, 1e-12)
                column -= means[group]
    return values


def estimate(rows):
    """The version's effect on a rate, its p-value, and the rate's mean under the earlier version."""
    rate = (rows.ns / rows.frames / 1e3).to_numpy()
    if (rate > 0).any():
        rate = np.minimum(rate, np.quantile(rate[rate > 0], QUANTILE))
    device = pd.factorize(rows.device)[0]
    day = pd.factorize(rows.day.astype(str) + rows.model.str.split().str[0])[0]
    columns = np.column_stack([rate, rows.version, rows.is_first_day]).astype(float)
    columns = without_means(columns, [device, day], np.ones(len(rows)))
    fit = sm.OLS(columns[:, 0], columns[:, 1:]).fit(cov_type="cluster", cov_kwds={"groups": device})
    return fit.params[0], fit.pvalues[0], rate[rows.version == 0].mean()


def judge(rows):
    """Worse and better series, and the estimated factors of those that changed with the true ones."""
    rows = rows[rows.groupby("screen").version.transform("min") == 0]
    series = list(rows.groupby(["screen", "key"]))
    changed = rows.factor.max() > 1
    false, found, factors = False, False, []
    for (_, key), of_series in series:
        effect, p, mean = estimate(of_series)
        factor = of_series.factor.max()
        is_changed = factor > 1 or (not key and changed)
        is_sure = p * len(series) < LEVEL
        found |= is_sure and is_changed and effect > 0
        false |= is_sure and (not is_changed or effect < 0)
        if factor > 1:
            factors.append((1 + effect / mean, factor))
    return false, found, factors


def main():
    program, rollouts, worlds = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    print(f"{rollouts} rollouts: false alarms, found; mean factor of what changed, true factor")
    for world in worlds:
        false, found, factors = 0, 0, []
        for seed in range(rollouts):
            text = subprocess.run([program, world, str(seed)], check=True, capture_output=True, text=True).stdout
            rows = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values={"factor": ""})
            is_false, is_found, of_rollout = judge(rows)
            false, found = false + is_false, found + is_found
            factors += of_rollout
        said = " ".join(f"{value:.3f}" for value in np.mean(factors, axis=0)) if factors else ""
        print(f"{world:28} {false:4} {found:4}  {said}", flush=True)


main()
