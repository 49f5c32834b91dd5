//! Where a request comes from: the address behind the proxies that are trusted, and whether it was sent by a program on
//! this machine or by a page in a browser. Knows nothing of users and tokens.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Proxies in a row that are followed back; nobody has more.
const MAX_HOPS: usize = 32;
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What proxies add. A request with one of these was not sent by a program on this machine, whoever passed it on.
const OF_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const OF_PROXIES_TOO: &str = "x-forwarded-";

/// One address, or all that begin like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("`{text}` is no address and no network; write 10.0.0.7 or 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = width(address);
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(|_| wrong()))?;
        if bits > most { Err(wrong()) } else { Ok(Network { address, bits }) }
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                same(ours.to_bits().into(), other.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => same(ours.to_bits(), other.to_bits(), 128 - self.bits),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Equal but for so many bits at the end.
fn same(one: u128, other: u128, but: u32) -> bool {
    (one ^ other).checked_shr(but).unwrap_or(0) == 0
}

/// The address that a request counts for: that of the peer, or what a trusted proxy says of whom it got it from. Each
/// proxy adds its peer at the end, so the list is read backwards, and what an untrusted one wrote is not read at all.
pub fn remote(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.has(address));
    let lists: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|list| list.to_str().ok()).collect();
    let mut address = peer;
    for hop in lists.iter().rev().flat_map(|list| list.rsplit(',')).take(MAX_HOPS) {
        if !is_trusted(address) {
            break;
        }
        let Some(next) = ip(hop.trim()) else { break };
        address = next;
    }
    address
}

/// Some proxies add the port.
fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
}

/// Whether a program on this machine sends this of its own accord. A page from elsewhere that a browser on this machine
/// shows can send requests here, too; it cannot hide that it did. The error says what gave it away.
pub fn is_from_this_machine(peer: Option<IpAddr>, parts: &Parts) -> Result<(), String> {
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return Err("it comes from another machine".into());
    }
    let is_of_proxies = |name: &&str| OF_PROXIES.contains(name) || name.starts_with(OF_PROXIES_TOO);
    if let Some(name) = parts.headers.keys().map(HeaderName::as_str).find(is_of_proxies) {
        return Err(format!("it came through a proxy (`{name}`)"));
    }
    let host = host(parts)?;
    let site = word(&parts.headers, &FETCH_SITE);
    if !matches!(site, None | Some("same-origin" | "none")) {
        return Err("a page of another site sent it (`Sec-Fetch-Site`)".into());
    }
    let is_own = |origin: &str| ["http", "https"].iter().any(|scheme| is_at(origin, scheme, host.as_str()));
    match parts.headers.get(header::ORIGIN).map(HeaderValue::to_str) {
        None => Ok(()),
        Some(Ok(origin)) if is_own(origin) => Ok(()),
        Some(_) => Err("a page of another site sent it (`Origin`)".into()),
    }
}

fn is_at(origin: &str, scheme: &str, host: &str) -> bool {
    let rest = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

/// The name that this machine was called by. Any other name than its own may be one that somebody has made point here,
/// to be let in by the browser as the same site.
fn host(parts: &Parts) -> Result<Authority, String> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        (None, _) | (Some(_), Some(_)) => None,
    };
    let host = host.filter(is_local).ok_or("`Host` is not a name of this machine, such as localhost")?;
    match parts.uri.authority() {
        Some(other) if !is_local(other) => Err("it asks for another machine".into()),
        Some(_) | None => Ok(host),
    }
}

fn is_local(authority: &Authority) -> bool {
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    !authority.as_str().contains('@') && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

/// A header that is there more than once, or is no text, is no word that we know.
fn word<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => Some(value.to_str().unwrap_or("?")),
        (Some(_), Some(_)) => Some("?"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use axum::http::Request;

    #[test]
    fn networks_are_read_and_have_their_addresses() {
        let table = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
        ];
        for (network, address, expected) in table {
            let found = network.parse::<Network>().unwrap().has(address.parse().unwrap());
            assert_eq!(found, expected, "{network} {address}");
        }
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "10.0.0.0/x", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let table: [(&str, &[&str], &str); 9] = [
            ("10.0.0.1", &["203.0.113.5"], "203.0.113.5"),
            ("192.0.2.1", &["203.0.113.5"], "192.0.2.1"),
            // What the client itself wrote stands before what the proxy added.
            ("10.0.0.1", &["198.51.100.9, 203.0.113.5"], "203.0.113.5"),
            ("10.0.0.1", &["203.0.113.5, 10.0.0.2"], "203.0.113.5"),
            ("10.0.0.1", &["203.0.113.5", "10.0.0.2"], "203.0.113.5"),
            ("10.0.0.1", &["203.0.113.5:4711"], "203.0.113.5"),
            ("10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ];
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (peer, lists, expected) in table {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(FORWARDED_FOR, list.parse().unwrap());
            }
            let found = remote(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found.to_string(), expected, "{peer} {lists:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_told_from_a_program_of_this_machine() {
        let check = |peer: &str, headers: &[(&str, &str)], expected: &str| {
            let request = headers
                .iter()
                .fold(Request::get("/api/v1/runs"), |request, (name, value)| request.header(*name, *value));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let found = is_from_this_machine(peer.parse().ok(), &parts).err().unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{headers:?}: {found}");
        };
        let local = ("host", "localhost:7300");
        for host in ["localhost:7300", "LOCALHOST", "127.0.0.1:1", "127.9.9.9", "[::1]:7300"] {
            check("127.0.0.1", &[("host", host)], "");
        }
        check("::1", &[local], "");
        check("::ffff:127.0.0.1", &[local], "");
        for host in ["evil.test:7300", "localhost.evil.test", "192.0.2.1", "localhost@evil.test", "me@localhost", "::"]
        {
            check("127.0.0.1", &[("host", host)], "`Host`");
        }
        check("127.0.0.1", &[], "`Host`");
        check("127.0.0.1", &[local, local], "`Host`");
        check("192.0.2.1", &[local], "another machine");
        check("", &[local], "another machine");
        check("127.0.0.1", &[local, ("origin", "http://localhost:7300"), ("sec-fetch-site", "same-origin")], "");
        check("127.0.0.1", &[local, ("sec-fetch-site", "none")], "");
        for origin in
            ["http://localhost:3000", "http://evil.test", "null", "", "http://localhost:73000", "ftp://localhost:7300"]
        {
            check("127.0.0.1", &[local, ("origin", origin)], "`Origin`");
        }
        for site in ["cross-site", "same-site", "", "Same-Origin"] {
            check("127.0.0.1", &[local, ("sec-fetch-site", site)], "`Sec-Fetch-Site`");
        }
        check("127.0.0.1", &[local, ("x-forwarded-for", "203.0.113.5")], "a proxy");
        check("127.0.0.1", &[local, ("x-forwarded-prefix", "/relais")], "a proxy");
        check("127.0.0.1", &[local, ("via", "1.1 somebody")], "a proxy");
    }
}
