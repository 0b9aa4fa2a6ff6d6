use super::*;

/// A certificate for these names, signed by itself; chain and key in PEM.
fn made(names: &[&str], until: i32) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn certificate(name: &str, names: &[&str], until: i32) -> Arc<Certificate> {
    let (chain, key) = made(names, until);
    Arc::new(Certificate::read(name, chain.as_bytes(), key.as_bytes()).unwrap())
}

#[test]
fn what_a_certificate_says() {
    let read = certificate("a", &["Example.org", "*.ws.example.org", "10.0.0.1"], 2050);
    assert_eq!(read.names, ["example.org", "*.ws.example.org"]);
    assert_eq!(read.ends, 2_524_608_000);
    for host in [
        "example.org",
        "EXAMPLE.org.",
        "dev.ws.example.org",
        "10.0.0.1",
    ] {
        assert!(read.covers(host), "{host}");
    }
    for host in [
        "ws.example.org",
        ".ws.example.org",
        "a.b.ws.example.org",
        "example.org.evil",
        "10.0.0.2",
        "[::1]",
        "",
    ] {
        assert!(!read.covers(host), "{host}");
    }
}

#[test]
fn what_is_no_certificate() {
    let (chain, key) = made(&["a"], 2050);
    let (_, other) = made(&["a"], 2050);
    let (nameless, its) = made(&[], 2050);
    let torn = chain.replace("MII", "MIJ");
    let read = |chain: &str, key: &str| {
        Certificate::read("a", chain.as_bytes(), key.as_bytes()).map(|_| ())
    };
    assert_eq!(read(&chain, &key), Ok(()));
    assert_eq!(read("", &key), Err(Bad::NoCertificate));
    assert_eq!(read(&key, &key), Err(Bad::NoCertificate));
    assert_eq!(read(&chain, ""), Err(Bad::NoKey));
    assert_eq!(read(&chain, &chain), Err(Bad::NoKey));
    assert_eq!(read(&chain, &other), Err(Bad::Mismatch));
    assert_eq!(read(&nameless, &its), Err(Bad::Nameless));
    assert!(matches!(
        read(&torn, &key),
        Err(Bad::Unreadable(_) | Bad::NoCertificate)
    ));
}

#[test]
fn which_one_is_shown() {
    let all = Certificates::new(vec![
        certificate("default", &["console.org"], 2050),
        certificate("all", &["*.ws.org"], 2050),
        certificate("one", &["dev.ws.org"], 2050),
        certificate("old", &["dev.ws.org", "old.org"], 2040),
    ])
    .unwrap();
    let shown = |asked: Option<&str>| all.pick(asked).name.clone();
    assert_eq!(shown(None), "default");
    assert_eq!(shown(Some("elsewhere.org")), "default");
    assert_eq!(shown(Some("a.ws.org")), "all");
    assert_eq!(shown(Some("DEV.ws.org")), "one");
    assert_eq!(shown(Some("old.org")), "old");
    assert!(all.find("a.b.ws.org").is_none());
    assert!(Certificates::new(Vec::new()).is_none());
}
