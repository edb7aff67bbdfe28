// Package telemetry watches GPUs during a measurement.
//
// # Sources
//
// A [Source] is a DCGM exporter (Prometheus text over HTTP) or the local
// management library (NVML). A [Recorder] scrapes all of its sources on a ticker
// that does not drift, each scrape with a deadline, and keeps what it saw.
// Nothing that a source does is fatal and nothing waits for one longer than a
// second; how good the telemetry was is part of the result.
//
// # Windows
//
// [Recorder.Window] sums up what happened between two moments, usually those of
// a case without its warm-up: gauges as statistics over the samples inside,
// counters as the sum of their increases, XIDs as the set of codes.
//
// # Devices
//
// A device is told by its UUID and, for a MIG slice, by the slice's id. One that
// several sources know counts once.
package telemetry
