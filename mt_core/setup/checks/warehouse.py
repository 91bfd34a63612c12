"""Checks the warehouse: whether its folder is writable, or its object store responds."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from mt_core.model.finding import Finding
from mt_core.setup.checks.home import LEAST_FREE, existing
from mt_core.setup.machine import LAKE, Machine

SUBJECT = "object store"
TIMEOUT_S = 5.0
_S3_ENDPOINTS = (f"{LAKE}s3.endpoint", "spark.hadoop.fs.s3a.endpoint")
_S3_REGIONS = (f"{LAKE}client.region", f"{LAKE}s3.region", "spark.hadoop.fs.s3a.endpoint.region")
_PORTS = {"http": 80, "https": 443}

Address = tuple[str, int]


def check(machine: Machine) -> list[Finding]:
    """Return a finding on whether the warehouse folder is writable, or its remote store responds."""
    warehouse = machine.config.warehouse
    if machine.config.is_served_catalog:
        text = (
            "the server of the catalog says where tables are stored; freshtable doctor --catalog lake asks it"
        )
        return [Finding.note(SUBJECT, text)]
    uri = urlsplit(warehouse)
    if uri.scheme in ("", "file"):
        return [_of_folder(Path(unquote(uri.path) if uri.scheme else warehouse).expanduser())]
    address = address_of(uri, machine.spark, machine.environ)
    if address is None:
        return [Finding.note(SUBJECT, f"{warehouse} was not checked: no setting says where its store is")]
    return [judge_store(warehouse, address, _refusal(address))]


def address_of(uri: SplitResult, conf: Mapping[str, str], environ: Mapping[str, str]) -> Address | None:
    """Return the host and port of a warehouse's store, or None if unknown."""
    match uri.scheme.lower():
        case "s3" | "s3a" | "s3n":
            endpoint = next((conf[key] for key in _S3_ENDPOINTS if conf.get(key)), None)
            return _address(
                endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
            ) or (
                _s3_host(conf, environ),
                443,
            )
        case "gs":
            return "storage.googleapis.com", 443
        case "abfs" | "abfss" | "wasb" | "wasbs" if uri.hostname:
            return uri.hostname, 443
        case "hdfs" if uri.hostname:
            return uri.hostname, uri.port or 8020
        case _:
            return None


def judge_store(warehouse: str, address: Address, refusal: str) -> Finding:
    """Return the finding about a store, which is reachable if *refusal* is empty."""
    where = f"{address[0]}:{address[1]}"
    if refusal:
        way_out = "correct the endpoint of the store in the settings spark.*, or open the network to it"
        return Finding.problem(
            SUBJECT, f"{where}, the store of {warehouse}, cannot be reached: {refusal}", way_out
        )
    return Finding.ok(
        SUBJECT, f"{where}, the store of {warehouse}, answers; its credentials were not checked"
    )


def _of_folder(folder: Path) -> Finding:
    there = existing(folder.absolute())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        text = f"the warehouse {folder} cannot be written by this user"
        return Finding.problem(SUBJECT, text, f"sudo chown -R $(id -un) {there}, or set catalog.warehouse")
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE:
        text = f"only {free >> 20} MB are free for the warehouse {folder}"
        return Finding.problem(SUBJECT, text, "delete files on its disk, or set catalog.warehouse")
    return Finding.ok(SUBJECT, f"the warehouse {folder} can be written, {free >> 30} GB are free")


def _s3_host(conf: Mapping[str, str], environ: Mapping[str, str]) -> str:
    named = (conf.get(key) for key in _S3_REGIONS)
    region = next(filter(None, named), None) or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    return f"s3.{region}.amazonaws.com" if region else "s3.amazonaws.com"


def _address(endpoint: str | None) -> Address | None:
    if not endpoint:
        return None
    parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    return (parts.hostname, parts.port or _PORTS.get(parts.scheme, 443)) if parts.hostname else None


def _refusal(address: Address) -> str:
    """Return why a connection fails, or an empty string."""
    try:
        socket.create_connection(address, timeout=TIMEOUT_S).close()
    except OSError as error:
        return str(error)
    return ""
