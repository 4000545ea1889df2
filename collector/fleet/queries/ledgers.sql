-- Days of devices and their counts by app and version, from ledgers.
SELECT
  l.app AS app,
  l.ver AS ver,
  {sums ledger_rollups l}
FROM chosen_ledger_rollups AS l
GROUP BY l.app, l.ver
ORDER BY app, ver
