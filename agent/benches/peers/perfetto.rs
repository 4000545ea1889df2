//! The Perfetto SDK in this process, for the benches.

use std::sync::OnceLock;

perfetto_sdk::track_event_categories! {
    pub mod perfetto_te_ns {
        ("bench", "The bench's category", []),
    }
}

/// A running in-process session with a ring of `size_kb`.
pub(crate) fn session(size_kb: u32) -> perfetto_sdk::tracing_session::TracingSession {
    use perfetto_sdk::heap_buffer::HeapBuffer;
    use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
    use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
    use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
    use perfetto_sdk::protos::config::trace_config::{
        TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource,
    };
    use perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        Producer::init(ProducerInitArgsBuilder::new().backends(Backends::IN_PROCESS).build());
        perfetto_sdk::track_event::TrackEvent::init();
        perfetto_te_ns::register().unwrap();
    });
    let writer = PbMsgWriter::new();
    let heap = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).unwrap();
    {
        let mut config = TraceConfig { msg: &mut message };
        config.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
            buffer.set_size_kb(size_kb);
        });
        config.set_data_sources(|sources: &mut TraceConfigDataSource| {
            sources.set_config(|source: &mut DataSourceConfig| {
                source.set_name("track_event");
                source.set_track_event_config(|events: &mut TrackEventConfig| {
                    events.set_enabled_categories("bench");
                });
            });
        });
    }
    message.finalize();
    let mut config = vec![0u8; writer.stream_writer().get_written_size()];
    heap.copy_into(&mut config);
    let mut session = perfetto_sdk::tracing_session::TracingSession::in_process().unwrap();
    session.setup(&config);
    session.start_blocking();
    session
}
