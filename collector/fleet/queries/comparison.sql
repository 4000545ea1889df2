-- Samples for a test of significance, by version: total jank, and each cause. One device is one observation: its
-- milliseconds of jank (or of the cause) per thousand frames. A cause counts in janky frames of which it took a
-- tenth or more; work that every frame does is no cause. Only captures that count for rates (`counted`). A device
-- without time of a cause is an observation of 0 and has no row of it: `devices` counts all devices.
SELECT
  s.app AS app,
  s.ver AS ver,
  s.cause AS cause,
  s.cause_key AS cause_key,
  r.devices AS devices,
  s.devices_with AS devices_with,
  s.total AS total,
  s.sum_of_squares AS sum_of_squares
FROM samples AS s
CROSS JOIN chosen
CROSS JOIN reach AS r
WHERE (chosen.app = '' OR s.app = chosen.app)
  AND s.by_screen = CASE WHEN chosen.screen = '' THEN 0 ELSE 1 END
  AND (chosen.screen = '' OR s.screen = chosen.screen)
  AND r.app = s.app
  AND r.kind = 'frames'
  AND r.grouped_by = CASE WHEN chosen.screen = '' THEN 'ver' ELSE 'screen,ver' END
  AND r.dt = ''
  AND r.ver = s.ver
  AND r.screen = s.screen
ORDER BY app, ver, cause, cause_key
