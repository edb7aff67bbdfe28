package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aicplan/stages/runtimes"
)

// TestEveryFlagOfAIPerfIsMapped checks that the page lists every flag and that the options on the page
// exist.
func TestEveryFlagOfAIPerfIsMapped(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/aiperf/profile-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference/aiperf-flags.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "--") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page does not have %s", name)
		}
	}
	// Words of the page that are not options of endpoints.
	known := []string{"endpoint", "server", "load", "chat", "completions", "auto", "require", "sequential", "shuffle",
		"none", "records",
		"poisson", "constant", "gamma", "trace", "telemetry", "ready", "within", "path", "completion", "profiler",
		"endpoints", "nvml",
		"counters", "interval", "required", "report", "export", "check", "aiperf", "goodput", "good_fraction",
		"cache_hit_rate", "usage",
		"request_errors", "mooncake_trace", "weka_trace", "search", "responses", "embeddings", "rerank", "max_completion_tokens"}
	for _, k := range runtimes.Registered(runtimes.Kinds()) {
		if k.Name != "endpoint" {
			continue
		}
		for _, o := range k.Options {
			known = append(known, o.Name)
		}
		for _, b := range k.Collect {
			for _, o := range b.Options {
				known = append(known, o.Name)
			}
		}
	}
	words := regexp.MustCompile("`([a-z_]+)`")
	for _, row := range strings.Split(string(page), "\n| ") {
		_, here, _ := strings.Cut(row, " | ")
		for _, m := range words.FindAllStringSubmatch(here, -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%q is no option of endpoint runtimes: %s", m[1], row)
			}
		}
	}
}
