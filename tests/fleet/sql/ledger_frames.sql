-- Frames of ledgers by app, each dimension and source.
SELECT
  f.app AS app,{
  f.dimension AS dimension,}
  f.source AS source,
  SUM(f.frames) AS frames,
  SUM(f.late) AS late,
  SUM(f.frozen) AS frozen,
  SUM(f.late_app) AS late_app,
  SUM(f.late_system) AS late_system,
  SUM(f.late_other) AS late_other,
  SUM(f.overrun_us) AS overrun_us
FROM ledger_screens AS f
CROSS JOIN chosen
WHERE (chosen.app = '' OR f.app = chosen.app)
  AND (chosen.screen = '' OR f.screen = chosen.screen)
GROUP BY f.app{, f.dimension}, f.source
ORDER BY app{, dimension}, source
