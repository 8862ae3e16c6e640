//! Lines from a namenode's HTTP port, printed as they come.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use trellis_client::user::default_user;

use crate::output::print;

/// How long a namenode may take to take a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(8);
/// How long it may say nothing; it sends a sign of life more often.
const SILENCE: Duration = Duration::from_secs(60);
/// The longest line that is kept; a namenode sends no longer ones.
const MAX_LINE: usize = 1 << 20;

/// Which namenodes to ask.
#[derive(clap::Args)]
pub struct Namenodes {
    /// HTTP ports of namenodes, HOST:PORT[,HOST:PORT…]; the first that answers is asked
    #[arg(long, value_name = "ADDRESSES", env = "TRELLIS_HTTP", default_value = "127.0.0.1:9870")]
    http: String,
}

impl Namenodes {
    /// Asks for a page (`/fsck`) as this process's user, prints its lines, and gives the last one that is not empty.
    pub async fn print(&self, page: &str, options: &[(&str, &str)]) -> Result<String> {
        let mut last = String::new();
        let each = |line: &str| {
            if !line.is_empty() {
                line.clone_into(&mut last);
            }
            print(line)
        };
        self.lines(page, options, each).await?;
        Ok(last)
    }

    /// The same with something else done with each line.
    pub async fn lines(
        &self,
        page: &str,
        options: &[(&str, &str)],
        each: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("ugi", &default_user()).extend_pairs(options);
        let target = format!("{page}?{}", query.finish());
        let mut failures = Vec::new();
        for address in self.http.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            match ask(address, &target).await {
                Ok(answer) => return read(answer, each).await.with_context(|| format!("http://{address}")),
                Err(error) => failures.push(format!("http://{address}: {error:#}")),
            }
        }
        match failures.is_empty() {
            true => bail!("--http names no namenode: give at least one HOST:PORT"),
            false => bail!("{}; give the HTTP port of a namenode with --http", failures.join("; ")),
        }
    }
}

/// Sends a request; an answer that refuses is an error.
async fn ask(address: &str, target: &str) -> Result<Response<Incoming>> {
    let connect = tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address));
    let stream = connect.await.map_err(|_| anyhow!("no connection within {CONNECT_WITHIN:?}"))??;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer.
    tokio::spawn(connection);
    let request = Request::get(target).header(header::HOST, address).body(Empty::<Bytes>::new())?;
    let answer = tokio::time::timeout(SILENCE, sender.send_request(request)).await??;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (status, text) = (answer.status(), answer.into_body().collect().await?.to_bytes());
    bail!("{status}: {}", String::from_utf8_lossy(&text).trim())
}

/// Reads an answer to its end, line by line.
async fn read(mut answer: Response<Incoming>, mut each: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let mut rest = Vec::new();
    while let Some(frame) = tokio::time::timeout(SILENCE, answer.frame()).await? {
        let Ok(piece) = frame?.into_data() else { continue };
        rest.extend_from_slice(&piece);
        let mut begin = 0;
        while let Some(length) = rest[begin..].iter().position(|byte| *byte == b'\n') {
            each(&String::from_utf8_lossy(&rest[begin..begin + length]))?;
            begin += length + 1;
        }
        rest.drain(..begin);
        if rest.len() > MAX_LINE {
            bail!("it sent a line of more than {MAX_LINE} bytes");
        }
    }
    if !rest.is_empty() {
        each(&String::from_utf8_lossy(&rest))?;
    }
    Ok(())
}
