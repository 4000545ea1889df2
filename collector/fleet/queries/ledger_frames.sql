-- Frames of ledgers by app, dimensions and source.
SELECT
  f.app AS app,{
  f.dimension AS dimension,}
  f.source AS source,
  {sums ledger_frames f}
FROM chosen_ledger_frames AS f
CROSS JOIN chosen
WHERE chosen.screen = '' OR f.screen = chosen.screen
GROUP BY f.app{, f.dimension}, f.source
ORDER BY app{, dimension}, source
