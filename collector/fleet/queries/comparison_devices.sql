-- Traits of devices under a version, by which a comparison finds those that are alike: of their captures that count for
-- rates (`counted`). `quick_ns` is the time within which a tenth of a capture's frames are complete, times its frames: on
-- all screens, whichever is chosen.
SELECT
  t.app AS app,
  t.ver AS ver,
  t.device AS device,
  t.model AS model,
  t.api AS api,
  t.hz AS hz,
  t.debuggable AS debuggable,
  t.emulator AS emulator,
  t.captures AS captures,
  t.frames AS frames,
  t.quick_ns AS quick_ns
FROM chosen_device_traits AS t
ORDER BY app, ver, device, model, api, hz, debuggable, emulator
