// Package telemetry monitors GPUs during a measurement.
//
// # Sources
//
// A [Source] is a DCGM exporter (Prometheus text over HTTP) or the local management library (NVML). A
// [Recorder] scrapes all its sources periodically without drift, each scrape with a deadline, and keeps the
// samples. Errors of a source are never fatal. Lost scrapes and errors are part of the result.
//
// # Windows
//
// [Recorder.Window] summarizes the time between two moments, usually a case without its warm-up: gauges as
// statistics over the samples, counters as the sum of their increases, XIDs as the set of codes. Means over time and
// increases are null if the samples do not cover the window.
//
// # Devices
//
// A device is identified by its UUID and, for a MIG slice, by the id of the slice. A device that is
// reported by several sources is counted once.
package telemetry
