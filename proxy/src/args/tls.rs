//! Flags of TLS.

use crate::tls::Source;
use clap::Args as Group;
use nogoo9_runtime::config::Problems;
use std::path::PathBuf;

/// Where certificates are, if the proxy itself ends TLS.
#[derive(Debug, Clone, Default, Group)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate in PEM, with its chain. The public listener then speaks TLS alone, with HTTP/2 and
    /// HTTP/1.1, and --public-url begins with https. Read again when it changes. [default: none, TLS
    /// ends in front of the proxy]
    #[arg(long, env = "NOGOO9_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, env = "NOGOO9_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Folder of certificates, each shown to who asks for a name of its own: NAME.crt with NAME.key, or
    /// folders with tls.crt and tls.key, as Secrets are mounted. Who asks for another name is shown the
    /// one of --tls-cert, else the first by name. [default: none]
    #[arg(long, env = "NOGOO9_TLS_DIR", value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
}

impl TlsArgs {
    /// Where certificates are; `None` within: TLS ends elsewhere. `https`: how the public URL begins.
    pub(super) fn source(
        &self,
        https: Option<bool>,
        problems: &mut Problems,
    ) -> Option<Option<Source>> {
        let Self {
            tls_cert,
            tls_key,
            tls_dir,
        } = self;
        let alone = match (tls_cert, tls_key) {
            (Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                problems.add("tls-key", "--tls-cert needs its private key");
                return None;
            }
            (None, Some(_)) => {
                problems.add("tls-cert", "--tls-key needs its certificate");
                return None;
            }
        };
        let source = Source {
            alone,
            folder: tls_dir.clone(),
        };
        if source == Source::default() {
            return Some(None);
        }
        if https == Some(false) {
            let flag = if tls_dir.is_some() {
                "tls-dir"
            } else {
                "tls-cert"
            };
            problems.add(flag, "needs a --public-url that begins with https");
            return None;
        }
        Some(Some(source))
    }
}
