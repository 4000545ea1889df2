-- Smoothness by app and dimensions. Only captures that count for rates (`counted`).
WITH sums AS (
  SELECT
    f.app AS app,{
    f.dimension AS dimension,}
    {sums frame_rollups f}
  FROM frame_sums AS f
  GROUP BY f.app{, f.dimension}
)
SELECT
  s.*,
  c.devices AS devices
FROM sums AS s
CROSS JOIN chosen
CROSS JOIN reach AS c
WHERE c.app = s.app
  AND c.kind = 'frames'
  AND c.grouped_by = {grouped_by}
  AND c.dt = {dt}
  AND c.ver = {ver}
  AND c.screen = {screen}
  AND c.pipeline = {pipeline}
ORDER BY app{, dimension}
