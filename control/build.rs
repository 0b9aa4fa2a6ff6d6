//! Puts the console into control. What it takes is a copy, so that building the console anew pulls
//! nothing away from under the compiler; debug builds prefer the work tree's at run time, and are
//! not built anew for it.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let console = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../ui/dist");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("PROFILE")? != "debug" {
        println!("cargo::rerun-if-changed={}", console.display());
    }
    if !console.join("index.html").is_file() {
        return Err("the console is not built: run `make ui` (it needs Node.js and npm)".into());
    }
    let copy = out.join("console");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    let mut names = Vec::new();
    take(&console, &copy, "", &mut names)?;
    names.sort();
    let mut source = String::from("static FILES: &[(&str, &[u8])] = &[\n");
    for name in names {
        writeln!(
            source,
            "    ({name:?}, include_bytes!({:?})),",
            copy.join(&name)
        )?;
    }
    source.push_str("];\n");
    fs::write(out.join("console.rs"), source)?;
    Ok(())
}

/// Copies a folder and notes the names of its files, below the console's folder.
fn take(from: &Path, to: &Path, below: &str, names: &mut Vec<String>) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name
            .to_str()
            .ok_or("a file of the console has an odd name")?;
        let (path, to) = (entry.path(), to.join(name));
        if path.is_dir() {
            take(&path, &to, &format!("{below}{name}/"), names)?;
        } else {
            fs::copy(&path, &to)?;
            names.push(format!("{below}{name}"));
        }
    }
    Ok(())
}
