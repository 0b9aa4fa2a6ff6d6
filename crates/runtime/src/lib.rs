//! What every nogoo9 binary needs around its real work: flags and configuration
//! file, logs, the admin listener, shutdown, sockets and a Kubernetes client.
//!
//! A binary declares its flags with clap (flattening [`args::CommonArgs`]), says how they
//! become settings by implementing [`config::Configure`], and hands both to [`start`]:
//!
//! ```no_run
//! use nogoo9_runtime::{args, config::{Configure, Problems}};
//!
//! #[derive(clap::Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     common: args::CommonArgs,
//!     /// Address of control, for everything that is not a workspace.
//!     #[arg(long, env = "NOGOO9_CONTROL_URL", value_name = "URL")]
//!     control_url: Option<String>,
//! }
//! struct Settings { common: args::Common, control: url::Url }
//!
//! impl Configure for Args {
//!     type Settings = Settings;
//!     fn config(&self) -> &args::ConfigArgs { &self.common.config }
//!     fn settings(&self, problems: &mut Problems) -> Option<Settings> {
//!         // Both are evaluated before either is unwrapped, so that all mistakes are seen.
//!         let common = self.common.resolve(&args::Defaults::PROXY, problems);
//!         let control = problems.required_url("control-url", self.control_url.as_deref(), "http://control:9010");
//!         Some(Settings { common: common?, control: control? })
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     nogoo9_runtime::start::<Args>(|settings| {
//!         settings.common.telemetry.install()?;
//!         let _ = settings.control;
//!         Ok(())
//!     })
//! }
//! ```

pub mod admin;
pub mod args;
pub mod audit;
pub mod client;
pub mod config;
mod exit;
pub mod kube;
pub mod limit;
pub mod listen;
pub mod secret;
pub mod shutdown;
pub mod telemetry;
pub mod trust;

pub use exit::{main_exit, start};
