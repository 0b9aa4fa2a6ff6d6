//! Where a request came from, as the next hop is told.

use pingora::http::RequestHeader;
use std::net::IpAddr;

/// Where a request came from, for the hop to control or a pod. What the client itself says of that is
/// taken out before; what trusted proxies say is in here.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Host that the client asked for.
    pub host: &'a str,
    /// Scheme of the public URL.
    pub scheme: &'a str,
    /// Address of the client.
    pub client: Option<IpAddr>,
}

impl Origin<'_> {
    /// Tells it in the words that applications know: `X-Forwarded-*`.
    pub(super) fn add_to(self, request: &mut RequestHeader) -> pingora::Result<()> {
        request.insert_header("X-Forwarded-Host", self.host)?;
        request.insert_header("X-Forwarded-Proto", self.scheme)?;
        request.insert_header("X-Forwarded-Port", self.port())?;
        match self.client {
            Some(client) => request.insert_header("X-Forwarded-For", client.to_string()),
            None => Ok(()),
        }
    }

    /// Tells it in the standard's words (RFC 7239).
    pub(super) fn add_standard(self, request: &mut RequestHeader) -> pingora::Result<()> {
        let Self { host, scheme, .. } = self;
        let value = match self.client {
            Some(IpAddr::V4(client)) => {
                format!("for={client};host=\"{host}\";proto={scheme}")
            }
            Some(IpAddr::V6(client)) => {
                format!("for=\"[{client}]\";host=\"{host}\";proto={scheme}")
            }
            None => format!("for=unknown;host=\"{host}\";proto={scheme}"),
        };
        request.insert_header("Forwarded", value)
    }

    /// The port that the client asked for.
    fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            // Not inside of an IPv6 address.
            Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => port,
            _ if self.scheme == "https" => "443",
            _ => "80",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_for_it() {
        for (host, scheme, client, port, forwarded) in [
            (
                "dev.example:9009",
                "http",
                Some("192.0.2.1"),
                "9009",
                "for=192.0.2.1;host=\"dev.example:9009\";proto=http",
            ),
            (
                "dev.example",
                "https",
                Some("2001:db8::1"),
                "443",
                "for=\"[2001:db8::1]\";host=\"dev.example\";proto=https",
            ),
            (
                "[::1]",
                "http",
                None,
                "80",
                "for=unknown;host=\"[::1]\";proto=http",
            ),
        ] {
            let mut request = RequestHeader::build("GET", b"/", None).unwrap();
            let origin = Origin {
                host,
                scheme,
                client: client.map(|client| client.parse().unwrap()),
            };
            origin.add_to(&mut request).unwrap();
            origin.add_standard(&mut request).unwrap();
            let one = |name: &str| {
                let value = request.headers.get(name);
                value.map(|value| value.to_str().unwrap())
            };
            assert_eq!(one("x-forwarded-port"), Some(port));
            assert_eq!(one("x-forwarded-host"), Some(host));
            assert_eq!(one("x-forwarded-proto"), Some(scheme));
            assert_eq!(one("x-forwarded-for"), client);
            assert_eq!(one("forwarded"), Some(forwarded));
        }
    }
}
