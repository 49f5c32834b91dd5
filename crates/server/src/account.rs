//! Whose program is at the other end of a connection from this machine. Linux tells it in `/proc/net/tcp`; elsewhere it
//! cannot be told.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

/// The two ends of a connection, and, once somebody asked, whose the other end is. One for each connection.
#[derive(Debug)]
pub struct Connection {
    peer: SocketAddr,
    own: SocketAddr,
    account: OnceCell<Option<u32>>,
}

/// Sockets by both their ends as they see them, with the number of the account that has them open.
type Owners = HashMap<(SocketAddr, SocketAddr), u32>;

const ROOT: u32 = 0;
/// The table is read while others open and close connections, and one that is there may be passed over.
const READS: usize = 3;

impl Connection {
    pub fn new(peer: SocketAddr, own: SocketAddr) -> Connection {
        Connection { peer: canonical(peer), own: canonical(own), account: OnceCell::new() }
    }

    /// Is it a program of the account that runs this server, or of root? Else why it is not let in.
    pub async fn must_be_own(&self) -> Result<(), String> {
        if !cfg!(target_os = "linux") {
            return Ok(());
        }
        let account = *self.account.get_or_init(|| account_at(self.peer, self.own)).await;
        match (account, own_account()) {
            (Some(account), Some(own)) if account == own || account == ROOT => Ok(()),
            (Some(_), Some(_)) => Err("another account of this machine sent it".to_owned()),
            (None, _) | (_, None) => Err("the account that sent it could not be told from /proc/net/tcp".to_owned()),
        }
    }
}

/// `::ffff:127.0.0.1` is 127.0.0.1, whichever family a socket has.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn account_at(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    for _ in 0..READS {
        if let Some(account) = find(peer, own).await {
            return Some(account);
        }
    }
    None
}

/// In a table that was read after this was asked. Those who ask while it is read share the next reading: it takes as long
/// as there are connections.
async fn find(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    static LAST: LazyLock<Mutex<Option<(Instant, Owners)>>> = LazyLock::new(Mutex::default);
    let asked = Instant::now();
    let mut last = LAST.lock().await;
    let is_new = last.as_ref().is_some_and(|(read, _)| *read > asked);
    if !is_new {
        let read = Instant::now();
        let owners = tokio::task::spawn_blocking(owners).await.unwrap_or_default();
        *last = Some((read, owners));
    }
    last.as_ref().and_then(|(_, owners)| owners.get(&(peer, own)).copied())
}

fn owners() -> Owners {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let text = [read("/proc/net/tcp"), read("/proc/net/tcp6")];
    text.iter().flat_map(|text| text.lines()).filter_map(socket).collect()
}

/// One line: number, own address, other address, state, queues, timer, retransmits, account, time-out, inode, and more.
/// A socket without an inode belongs to no process any more, and the account stands for nobody.
fn socket(line: &str) -> Option<((SocketAddr, SocketAddr), u32)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, own, other, _, _, _, _, account, _, inode, ..] = words[..] else { return None };
    let is_open = inode != "0";
    is_open.then_some(())?;
    Some(((address(own)?, address(other)?), account.parse().ok()?))
}

/// `0100007F:1C84`: the bytes of each word as this machine has them in memory, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match host.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// The account that this process acts as.
fn own_account() -> Option<u32> {
    static OWN: LazyLock<Option<u32>> =
        LazyLock::new(|| effective(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()));
    *OWN
}

/// `Uid:` and the real, effective, saved and file system account.
fn effective(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_the_table_are_read() {
        let check = |line: &str, expected: Option<(&str, &str, u32)>| {
            let wanted =
                expected.map(|(own, other, account)| ((own.parse().unwrap(), other.parse().unwrap()), account));
            assert_eq!(socket(line), wanted, "{line}");
        };
        let tail = "01 00000000:00000000 00:00000000 00000000";
        check(
            &format!("  5: 0100007F:D2F0 0100007F:1C84 {tail}  1000        0 4711 1 0000000000000000 20 4 30 10 -1"),
            Some(("127.0.0.1:54000", "127.0.0.1:7300", 1000)),
        );
        let (own, other) = ("00000000000000000000000001000000:D2F0", "00000000000000000000000001000000:1C84");
        check(&format!(" 0: {own} {other} {tail} 0 0 9 1 0"), Some(("[::1]:54000", "[::1]:7300", 0)));
        let mapped = "0000000000000000FFFF00000100007F:D2F0";
        let line = format!(" 0: {mapped} 0000000000000000FFFF00000100007F:1C84 {tail} 33 0 9 1 0");
        check(&line, Some(("127.0.0.1:54000", "127.0.0.1:7300", 33)));
        // Closed by its program: the table says root, and means nobody.
        check(&format!(" 0: 0100007F:D2F0 0100007F:1C84 {tail} 0 0 0 3 0"), None);
        check("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", None);
        check("", None);
        check(&format!(" 0: 0100007F 0100007F:1C84 {tail} 0 0 9 3 0"), None);
        assert_eq!(effective("Name:\trelais\nUid:\t1000\t1001\t1002\t1003\n"), Some(1001));
        assert_eq!(effective("Name:\trelais\n"), None);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn the_account_of_this_process_is_found_on_both_kinds_of_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = tokio::net::TcpListener::bind(address).await else {
                assert_ne!(address, "127.0.0.1:0", "a machine may have no IPv6, and has IPv4");
                continue;
            };
            let own = listener.local_addr().unwrap();
            let client = tokio::net::TcpStream::connect(own).await.unwrap();
            let (_stream, peer) = listener.accept().await.unwrap();
            assert_eq!(account_at(canonical(peer), canonical(own)).await, own_account(), "{address}");
            assert_eq!(Connection::new(peer, own).must_be_own().await, Ok(()));
            // Whose socket it was cannot be told any more when it is closed.
            drop(client);
            assert_eq!(account_at(canonical(peer), canonical(own)).await, None);
            assert!(Connection::new(peer, own).must_be_own().await.unwrap_err().contains("could not be told"));
        }
    }
}
