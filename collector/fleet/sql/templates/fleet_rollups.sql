CREATE TEMPORARY VIEW reach AS
  SELECT app, kind, '' AS grouped_by, '' AS dt, '' AS ver, '' AS screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('cause', 'stack', 'loss')
  GROUP BY app, kind, cause, cause_key
  UNION ALL
  SELECT app, kind, 'ver' AS grouped_by, '' AS dt, ver, '' AS screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('capture', 'start', 'frames', 'cause')
  GROUP BY app, kind, ver, cause, cause_key
  UNION ALL
  SELECT app, kind, 'screen' AS grouped_by, '' AS dt, '' AS ver, screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('cause', 'stack')
  GROUP BY app, kind, screen, cause, cause_key
  UNION ALL
  SELECT app, kind, 'screen,ver' AS grouped_by, '' AS dt, ver, screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('frames', 'cause')
  GROUP BY app, kind, ver, screen, cause, cause_key
  UNION ALL
  SELECT app, kind, 'dt,ver' AS grouped_by, day AS dt, ver, '' AS screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, day, ver, cause, cause_key
  UNION ALL
  SELECT app, kind, 'dt,screen,ver' AS grouped_by, day AS dt, ver, screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, day, ver, screen, cause, cause_key
  UNION ALL
  SELECT app, kind, 'pipeline,ver' AS grouped_by, '' AS dt, ver, '' AS screen, pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, ver, pipeline, cause, cause_key
  UNION ALL
  SELECT app, kind, 'pipeline,screen,ver' AS grouped_by, '' AS dt, ver, screen, pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, ver, screen, pipeline, cause, cause_key;
CREATE TEMPORARY VIEW times_of_devices AS
  SELECT app, 0 AS by_screen, ver, '' AS screen, kind, cause, cause_key, device, SUM(frames) AS frames, SUM(ns) AS ns
  FROM device_rollups
  WHERE kind = 'frames' OR (kind = 'cause' AND ns > 0)
  GROUP BY app, ver, kind, cause, cause_key, device
  UNION ALL
  SELECT app, 1 AS by_screen, ver, screen, kind, cause, cause_key, device, SUM(frames) AS frames, SUM(ns) AS ns
  FROM device_rollups
  WHERE kind = 'frames' OR (kind = 'cause' AND ns > 0)
  GROUP BY app, ver, screen, kind, cause, cause_key, device;
CREATE TEMPORARY VIEW observations AS
  SELECT t.app AS app, t.by_screen AS by_screen, t.ver AS ver, t.screen AS screen, t.cause AS cause,
    t.cause_key AS cause_key, CAST(t.ns AS DOUBLE) / CAST(f.frames AS DOUBLE) / 1e3 AS ms_in_1000
  FROM times_of_devices AS t
  JOIN times_of_devices AS f
    ON f.kind = 'frames' AND f.app = t.app AND f.by_screen = t.by_screen AND f.ver = t.ver
    AND f.screen = t.screen AND f.device = t.device;
CREATE TEMPORARY VIEW samples AS
  SELECT app, by_screen, ver, screen, cause, cause_key, COUNT(*) AS devices_with, SUM(ms_in_1000) AS total,
    SUM(ms_in_1000 * ms_in_1000) AS sum_of_squares
  FROM observations
  GROUP BY app, by_screen, ver, screen, cause, cause_key;
