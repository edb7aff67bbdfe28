package runtimes

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// TestKindsHaveRequiredProperties checks the required fields of every kind.
func TestKindsHaveRequiredProperties(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	shared := stage.TagWords(stage.Runtime{})[""]
	for _, k := range Kinds() {
		if k.Name == "" || seen[k.Name] {
			t.Errorf("the name %q is empty or there twice", k.Name)
		}
		seen[k.Name] = true
		if k.Summary == "" || k.Stability == "" {
			t.Errorf("%s: summary and stability are needed", k.Name)
		}
		for _, a := range k.Attributes {
			if !slices.Contains(shared, a) || slices.Contains(stage.RuntimeCommon, a) {
				t.Errorf("%s: %s is no attribute that some kinds share", k.Name, a)
			}
		}
		for _, name := range k.Measure {
			if !slices.Contains(measure.SettingNames(), name) {
				t.Errorf("%s: %s is no measure setting", k.Name, name)
			}
		}
		for _, o := range k.Options {
			if o.Doc == "" || slices.Contains(shared, o.Name) {
				t.Errorf("%s: the option %s has no doc, or the name of a shared attribute", k.Name, o.Name)
			}
		}
	}
}

// TestWorkersAcceptRegisteredOptions checks that workers accept exactly the registered options.
func TestWorkersAcceptRegisteredOptions(t *testing.T) {
	// A host of collectives quiets the garbage collector of its process.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	refuses := func(k *Kind, option string) bool {
		h, err := k.Host(worker.Init{Kind: k.Name, Device: -1, Options: map[string]any{option: struct{}{}}})
		if err == nil {
			_, err = h.Hello(context.Background())
		}
		return err != nil && strings.Contains(err.Error(), "no option")
	}
	for _, k := range Kinds() {
		if k.Host == nil {
			continue
		}
		if !refuses(k, "no_such_option") {
			t.Errorf("workers of kind %s take any option", k.Name)
		}
		for _, o := range k.Options {
			if !o.Pool && refuses(k, o.Name) {
				t.Errorf("workers of kind %s refuse the option %s, which is registered", k.Name, o.Name)
			}
		}
	}
}
