//! Serves metrics over HTTP: finished text, the same for every client.
//!
//! A request starts no work on the node, so that clients cannot make gpumap busy. One
//! thread serves them all and has no rights. A client has a moment to send its request
//! and another one to take its answer; when there are too many, the one that has kept
//! its place for longest without a request loses it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{Backlog, listen};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, LocalSet, spawn_local, yield_now};
use tokio::time::{sleep, timeout};

use crate::commands::invocation::Failure;
use crate::export::Family;
use crate::model::ProblemCode;
use crate::render::{self, MetricsFormat};
use crate::sys::caps::keep_only;

/// Clients that are served at the same time.
const CLIENTS: usize = 64;
/// How long a client may take to send its request, and for all of it.
const REQUEST: Duration = Duration::from_secs(2);
const WHOLE: Duration = Duration::from_secs(10);
/// Bytes of a request's header; no scraper sends more than one KiB.
const HEADER: usize = 8 << 10;
/// How long to wait where no connection can be taken: descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A port that is taken and not served yet.
pub(super) struct Bound(TcpListener);

/// A running server.
pub(super) struct Server {
    page: Arc<RwLock<Page>>,
    thread: JoinHandle<()>,
}

/// The text in both formats.
#[derive(Default)]
struct Page {
    classic: Bytes,
    open_metrics: Bytes,
}

impl Bound {
    /// Takes the port, which may need a right that is given up later.
    pub(super) fn new(address: SocketAddr) -> Result<Self, Failure> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            listen(&listener, Backlog::MAXCONN)?;
            Ok(Self(listener))
        });
        bound.map_err(|error| failed(&address.to_string(), &error))
    }

    /// Serves it in a thread that ends with the process.
    pub(super) fn serve(self) -> Result<Server, Failure> {
        let page = Arc::new(RwLock::new(Page::default()));
        let (shown, listener) = (page.clone(), self.0);
        let (ready, begun) = mpsc::channel();
        let serve = move || match runtime() {
            Ok(runtime) => {
                let _waited_for = ready.send(Ok(()));
                let _ended = LocalSet::new().block_on(&runtime, accept(listener, shown));
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let thread = thread::Builder::new().name("listen".to_owned()).spawn(serve);
        let begun = thread.and_then(|thread| {
            begun.recv().unwrap_or_else(|_| Err(ErrorKind::Other.into())).map(|()| Server { page, thread })
        });
        begun.map_err(|error| failed("thread", &error))
    }
}

/// What the server's thread runs on, after the thread has given up every right: what it
/// is asked comes from strangers.
fn runtime() -> io::Result<Runtime> {
    keep_only(&[])?;
    Builder::new_current_thread().enable_all().build()
}

fn failed(what: &str, error: &io::Error) -> Failure {
    let needs = "another --listen ADDRESS:PORT that is free";
    Failure::new(ProblemCode::Export, format!("--listen {what}"), error.to_string(), needs)
}

impl Server {
    /// Makes sure that somebody answers.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if !self.thread.is_finished() {
            return Ok(());
        }
        let why = "the thread that answers has ended: a call to the kernel failed";
        Err(Failure::new(ProblemCode::Export, "--listen", why, "start gpumap export again"))
    }

    /// Shows these metrics from now on.
    pub(super) fn publish(&self, families: &[Family]) -> io::Result<()> {
        let text = |format| {
            let mut text = Vec::new();
            render::metrics(&mut text, format, families).map(|()| Bytes::from(text))
        };
        let page =
            Page { classic: text(MetricsFormat::Classic)?, open_metrics: text(MetricsFormat::OpenMetrics)? };
        *self.page.write().unwrap_or_else(PoisonError::into_inner) = page;
        Ok(())
    }
}

/// A client with its place.
struct Client {
    task: AbortHandle,
    /// Whether its request has come.
    has_asked: Arc<AtomicBool>,
}

/// Takes connections for ever.
async fn accept(listener: TcpListener, page: Arc<RwLock<Page>>) -> io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        make_room(&mut clients);
        let has_asked = Arc::new(AtomicBool::new(false));
        let task = spawn_local(serve(stream, page.clone(), has_asked.clone())).abort_handle();
        clients.push_back(Client { task, has_asked });
        // Its request may be here already. Where connections come in without end, it
        // would lose its place before anybody has looked.
        yield_now().await;
    }
}

/// Ends a client if there are too many: the first of those that have sent no request,
/// or else the first.
fn make_room(clients: &mut VecDeque<Client>) {
    clients.retain(|client| !client.task.is_finished());
    if clients.len() >= CLIENTS {
        let idle = clients.iter().position(|client| !client.has_asked.load(Ordering::Relaxed));
        if let Some(client) = clients.remove(idle.unwrap_or(0)) {
            client.task.abort();
        }
    }
}

/// Serves one client, for a limited time. Whatever it does wrong ends its connection
/// and concerns nobody else.
async fn serve(stream: TcpStream, page: Arc<RwLock<Page>>, has_asked: Arc<AtomicBool>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        let answer = answer(&request, &page);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST).keep_alive(false).max_buf_size(HEADER);
    let connection = server.serve_connection(TokioIo::new(stream), answer);
    let _ended_or_late = timeout(WHOLE, pin!(connection)).await;
}

fn answer(request: &Request<Incoming>, page: &RwLock<Page>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/metrics" => metrics(request.headers(), page),
        "/" => plain(StatusCode::OK, "gpumap export: metrics are at /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    answer
}

fn metrics(headers: &HeaderMap, page: &RwLock<Page>) -> Response<Full<Bytes>> {
    let format =
        if wants_open_metrics(headers) { MetricsFormat::OpenMetrics } else { MetricsFormat::Classic };
    let page = page.read().unwrap_or_else(PoisonError::into_inner);
    let text = match format {
        MetricsFormat::OpenMetrics => page.open_metrics.clone(),
        MetricsFormat::Classic => page.classic.clone(),
    };
    if text.is_empty() {
        // The first look at the node is under way.
        return plain(StatusCode::SERVICE_UNAVAILABLE, "no metrics yet\n");
    }
    let mut answer = Response::new(Full::new(text));
    let media_type = HeaderValue::from_static(format.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Whether the client takes OpenMetrics, as Prometheus says that it does.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_it = parts.next() == Some("application/openmetrics-text");
        is_it && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that OpenMetrics is given to those alone who ask for it.
    #[test]
    fn formats() {
        let wants = |text: &str| {
            let headers = HeaderMap::from_iter([(ACCEPT, text.parse().unwrap())]);
            wants_open_metrics(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(wants(prometheus) && wants("text/plain, application/openmetrics-text; version=1.0.0"));
        assert!(!wants("*/*") && !wants("text/plain;version=0.0.4"));
        assert!(!wants("application/openmetrics-text;q=0") && !wants("application/openmetrics-textual"));
        assert!(!wants_open_metrics(&HeaderMap::new()));
    }
}
