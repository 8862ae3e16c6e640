//! Compiles `proto/*.proto` with protox (no system protoc) and writes, beside prost's modules, the typed method
//! constants, the table of required fields and the descriptor set.

mod methods;
mod presence;

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

/// Large fields of a message that is answered more often than any other, and which it seldom has.
const RARE: [&str; 3] = [
    ".hadoop.hdfs.HdfsFileStatusProto.locations",
    ".hadoop.hdfs.HdfsFileStatusProto.fileEncryptionInfo",
    ".hadoop.hdfs.HdfsFileStatusProto.ecPolicy",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let descriptors = protox::compile(proto_files(Path::new("proto"))?, ["proto"])?;

    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    std::fs::write(out.join("presence_table.rs"), presence::table(&descriptors)?)?;
    let mut config = prost_build::Config::new();
    for field in RARE {
        config.boxed(field);
    }
    config
        .bytes(["."])
        .enable_type_names()
        .service_generator(Box::new(methods::TypedMethods))
        .compile_fds(descriptors)?;
    Ok(())
}

/// All `.proto` files of `dir`, sorted, so that the output does not depend on the directory's order.
fn proto_files(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "proto") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
