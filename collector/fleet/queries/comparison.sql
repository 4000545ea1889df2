-- Values that a comparison observes: a device's frames of a day under a version by screen, with their time past the deadlines; and,
-- of each cause, its time in frames of which it took a tenth or more: work that every frame does is no cause. Only
-- captures that count for rates (`counted`). A device without time of a cause has no row of it.
SELECT
  v.app AS app,
  v.ver AS ver,
  v.device AS device,
  v.day AS day,
  v.screen AS screen,
  v.cause AS cause,
  v.cause_key AS cause_key,
  v.frames AS frames,
  v.ns AS ns
FROM chosen_device_values AS v
ORDER BY app, ver, device, day, screen, cause, cause_key
