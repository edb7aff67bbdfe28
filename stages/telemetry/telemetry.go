// Package telemetry is the block "telemetry": GPUs are watched during a collect
// that refers to it. What was seen in the window of a case becomes columns of
// its rows. Telemetry changes no key: rows that were measured without it stay,
// and their columns are null.
package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/telemetry"
	"aicplan/engine/stage"
)

// Kind registers the block.
func Kind() stage.ServiceKind {
	return stage.ServiceKind{
		Name:    "telemetry",
		Summary: "watches GPUs during a collect: DCGM exporters and NVML",
		Options: []stage.Option{
			{Name: "endpoints", Type: cty.List(cty.String), Doc: "DCGM exporters, as HOST:PORT or URL"},
			{Name: "defaults", Type: cty.Bool, Default: "true", Doc: "localhost:9400 and localhost:9401 are tried as well"},
			{Name: "nvml", Type: cty.Bool, Default: "true", Doc: "this machine's GPUs are read through the driver"},
			{Name: "interval", Type: cty.String, Default: `"333ms"`, Doc: "time between two scrapes of a source, 10ms to 300s"},
			{Name: "counters", Type: cty.String, Doc: "a counter file of the exporter, relative to the plan: FIELD, gauge or counter, help text"},
			{Name: "required", Type: cty.Bool, Default: "false",
				Doc: "a collect without any telemetry fails instead of going on"},
		},
	}
}

// Config is a telemetry block.
type Config struct {
	Address  string
	Required bool

	endpoints []string // normalised, of the user
	defaults  []string
	nvml      bool
	options   telemetry.Options
}

// Parse reads the block of s. It opens its counter file, if it
// names one; errors say what is wrong with which option.
func Parse(s *stage.Service) (*Config, error) {
	c := &Config{Address: s.Address, nvml: true, options: telemetry.Options{Set: telemetry.Builtin()}}
	tried := telemetry.DefaultEndpoints

	for name, v := range s.Options {
		if !v.IsWhollyKnown() {
			return nil, fmt.Errorf("%s of %s is known only after another stage has run; telemetry must be known before",
				name, s.Address)
		}
	}

	if v, ok := s.Options["nvml"]; ok {
		c.nvml = v.True()
	}

	if v, ok := s.Options["required"]; ok {
		c.Required = v.True()
	}

	if v, ok := s.Options["defaults"]; ok && v.False() {
		tried = nil
	}

	if v, ok := s.Options["interval"]; ok {
		d, err := time.ParseDuration(v.AsString())
		if err != nil || d < telemetry.MinInterval || d > telemetry.MaxInterval {
			return nil, fmt.Errorf("interval is %q; it must be a time between %s and %s, such as \"333ms\"",
				v.AsString(), telemetry.MinInterval, telemetry.MaxInterval)
		}
		c.options.Interval = d
	}

	var named []string
	if v, ok := s.Options["endpoints"]; ok {
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			if e.IsNull() {
				continue
			}
			named = append(named, e.AsString())
		}
	}

	var err error
	if c.defaults, err = telemetry.Endpoints(tried); err != nil {
		return nil, err
	}

	all, err := telemetry.Endpoints(c.defaults, named)
	if err != nil {
		return nil, err
	}

	c.endpoints = all[len(c.defaults):]
	if v, ok := s.Options["counters"]; ok {
		path := v.AsString()
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}

		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("counters: %w", err)
		}
		defer f.Close()

		if err := c.options.Set.AddCSV(f, v.AsString()); err != nil {
			return nil, err
		}
	}

	return c, nil
}
