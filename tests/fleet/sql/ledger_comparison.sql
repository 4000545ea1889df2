-- Values that a comparison of ledgers observes: a device's frames of a day under a version by screen, with the time of the late ones past
-- their deadlines; and, with the source `deaths`, its days, and the ends of processes of a day that a version may be worse by, as ms:
-- all, and those of a reason (`cause_key`).
WITH deaths AS (
  SELECT b.app AS app, b.ver AS ver, b.device AS device, b.dt AS day, b.name AS name, SUM(b.amount) AS amount
  FROM ledger_buckets AS b
  CROSS JOIN chosen
  WHERE (
      (b.kind = 'visible_exit' AND b.name IN ('anr', 'crash', 'crash_native'))
      OR (b.kind = 'exit' AND b.name = 'memory_limiter')
    )
    AND (chosen.app = '' OR b.app = chosen.app)
  GROUP BY b.app, b.ver, b.device, b.dt, b.name
),
observed AS (
  SELECT
    f.app AS app,
    f.ver AS ver,
    f.device AS device,
    f.dt AS day,
    f.source AS source,
    f.screen AS screen,
    '' AS cause_key,
    f.frames AS frames,
    f.overrun_us * 1000 AS ns
  FROM ledger_screens AS f
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR f.app = chosen.app)
    AND (chosen.screen = '' OR f.screen = chosen.screen)
  UNION ALL
  SELECT DISTINCT l.app AS app, l.ver AS ver, l.device AS device, l.dt AS day, 'deaths' AS source, '' AS screen,
    '' AS cause_key, 1 AS frames, 0 AS ns
  FROM ledger_days AS l
  CROSS JOIN chosen
  WHERE chosen.app = '' OR l.app = chosen.app
  UNION ALL
  SELECT app, ver, device, day, 'deaths' AS source, '' AS screen, '' AS cause_key, 0 AS frames, amount * 1000000 AS ns
  FROM deaths
  UNION ALL
  SELECT app, ver, device, day, 'deaths' AS source, '' AS screen, name AS cause_key, 0 AS frames, amount * 1000000 AS ns
  FROM deaths
)
SELECT app, ver, device, day, source, screen, cause_key, SUM(frames) AS frames, SUM(ns) AS ns
FROM observed
GROUP BY app, ver, device, day, source, screen, cause_key
ORDER BY app, ver, device, day, source, screen, cause_key
