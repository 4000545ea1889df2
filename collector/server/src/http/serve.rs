//! The accept loop: HTTP/1.1, with TLS or without, on connections with a place and a time limit.
//!
//! HTTP/2 is not spoken: no device uses it, and a connection that stays open for many requests is another resource to limit.
//! A client that does not send a request's head in time, does not read its answer, or keeps sending after it, is
//! disconnected.

use super::connections::{Connection, Connections};
use super::tls::TlsAcceptor;
use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Time limit of a request's head, of a TLS handshake, and of the wait for the next request.
const HEAD: Duration = Duration::from_secs(20);
/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Time limit for a client that does not read its answer; and when the server stops.
const UNREAD: Duration = Duration::from_secs(30);
const LAST_UNREAD: Duration = Duration::from_secs(2);
/// Limits of time and bytes for the rest of an incomplete request, which is read and discarded after its answer. If the
/// connection were closed at once, a client that is still sending would lose the answer.
const LINGER: Duration = Duration::from_secs(10);
const LINGER_SILENCE: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 32 << 20;
/// Pause of the loop when no descriptor is left.
const NO_DESCRIPTOR: Duration = Duration::from_millis(50);

/// The certificate that new connections get; a reload replaces it.
pub(crate) type Tls = Arc<RwLock<TlsAcceptor>>;

/// Service of a listener.
pub(crate) struct Serving {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    pub(crate) tls: Option<Tls>,
    pub(crate) connections: Arc<Connections>,
    /// Changes when it is to end.
    pub(crate) ended: watch::Receiver<bool>,
    /// Dropped with the last connection.
    pub(crate) alive: mpsc::Sender<()>,
}

impl Serving {
    /// Accepts until the server ends; connections end with their request.
    pub(crate) async fn run(self) {
        let mut ended = self.ended.clone();
        let mut end = pin!(ended.changed());
        loop {
            let accepted = poll_fn(|context| {
                if end.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                self.listener.poll_accept(context).map(Some)
            });
            match accepted.await {
                None => return,
                Some(Ok((stream, peer))) => self.take(stream, peer),
                // Out of descriptors, in spite of the reserve; or the peer has disconnected.
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Some(Err(_)) => sleep(NO_DESCRIPTOR).await,
            }
        }
    }

    fn take(&self, stream: TcpStream, peer: SocketAddr) {
        let Some(connection) = self.connections.admit(peer.ip()) else { return };
        let _ = stream.set_nodelay(true);
        let router = self.router.clone();
        let tls = self.tls.as_ref();
        let tls = tls.map(|tls| tls.read().unwrap_or_else(PoisonError::into_inner).clone());
        let (mut ended, alive) = (self.ended.clone(), self.alive.clone());
        tokio::spawn(async move {
            let _alive = alive;
            let hang_up = connection.hang_up();
            let mut hang_up = pin!(hang_up.notified());
            let stream = Patient::new(stream, ended.clone());
            let mut served = pin!(serve(stream, tls, router, connection, &mut ended));
            poll_fn(|context| match hang_up.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => served.as_mut().poll(context),
            })
            .await;
        });
    }
}

async fn serve(
    stream: Patient,
    tls: Option<TlsAcceptor>,
    router: Router,
    connection: Connection,
    ended: &mut watch::Receiver<bool>,
) {
    match tls {
        None => speak(stream, router, connection, ended).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(stream)).await {
                speak(stream, router, connection, ended).await;
            }
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    router: Router,
    connection: Connection,
    ended: &mut watch::Receiver<bool>,
) {
    let router = TowerToHyperService::new(router);
    let connection = Arc::new(connection);
    let service = service_fn(move |request: Request<Incoming>| {
        let connection = Arc::clone(&connection);
        let answer = connection.begin(request.headers()).then(|| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Arc::clone(&connection));
            router.call(request)
        });
        async move {
            let Some(answer) = answer else {
                let why = "too many requests from this address at once; try again later\n";
                return Ok((StatusCode::TOO_MANY_REQUESTS, why).into_response());
            };
            let answer = answer.await;
            connection.end();
            answer
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD_BYTES);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut end = pin!(ended.changed());
    let mut is_ending = false;
    poll_fn(|context| {
        if !is_ending && end.as_mut().poll(context).is_ready() {
            is_ending = true;
            served.as_mut().graceful_shutdown();
        }
        // The way in which a peer disconnects does not matter.
        served.as_mut().poll(context).map(drop)
    })
    .await;
}

/// A stream whose peer must read the answer, and may finish its request.
struct Patient {
    stream: TcpStream,
    /// Runs while a write waits.
    unread: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Changes when the server stops.
    ended: watch::Receiver<bool>,
    linger: Option<Linger>,
}

struct Linger {
    until: Instant,
    silence: Pin<Box<Sleep>>,
    left_bytes: usize,
}

impl Patient {
    const fn new(stream: TcpStream, ended: watch::Receiver<bool>) -> Self {
        Self { stream, unread: None, ended, linger: None }
    }

    /// Maximum wait of a write.
    fn waits<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let unread = self.unread.get_or_insert_with(|| Box::pin(unread(self.ended.clone())));
        ready!(unread.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Completes when a write has waited for too long.
async fn unread(mut ended: watch::Receiver<bool>) {
    let stopping = async {
        // A dropped server has also stopped.
        let _ = ended.wait_for(|is_ended| *is_ended).await;
        sleep(LAST_UNREAD).await;
    };
    let _ = timeout(UNREAD, stopping).await;
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.waits(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.waits(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.waits(context, flushed)
    }

    /// Shuts down the sending side, then reads the rest of the peer's data for a while.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, linger, .. } = &mut *self;
        let linger = match linger {
            Some(linger) => linger,
            none => {
                ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
                none.insert(Linger {
                    until: Instant::now() + LINGER,
                    silence: Box::pin(sleep(LINGER_SILENCE)),
                    left_bytes: MAX_LINGER_BYTES,
                })
            }
        };
        let mut thrown_away = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut thrown_away);
            let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(context, &mut buffer) else {
                return linger.silence.as_mut().poll(context).map(Ok);
            };
            let count = buffer.filled().len();
            linger.left_bytes = linger.left_bytes.saturating_sub(count);
            let now = Instant::now();
            if read.is_err() || count == 0 || linger.left_bytes == 0 || now >= linger.until {
                return Poll::Ready(Ok(()));
            }
            linger.silence.as_mut().reset((now + LINGER_SILENCE).min(linger.until));
        }
    }
}
