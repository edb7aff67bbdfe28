package runtimes

import (
	"fmt"
	"strings"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// TestRuntimesHaveDistinctFileNames checks that addresses have different file names if they differ only
// in letter case, in separators, or after the maximum length of a file name.
func TestRuntimesHaveDistinctFileNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	addresses := []string{
		"runtime.try", "runtime.Try", "runtime.TRY", `runtime.t["a/b"]`, `runtime.t["a_b"]`, `runtime.t["a\\b"]`,
		"runtime.t__a_b__",
		"runtime." + long + "1", "runtime." + long + "2", "runtime." + long +
			"A", `module.x["ü"].runtime.t`, `module.x["Ü"].runtime.t`,
	}
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	logs, paths := map[string]string{}, map[string]string{}
	for i, a := range addresses {
		log, path := strings.ToLower(logName(&stage.Runtime{Address: a})), strings.ToLower(knownPath(store, a))
		if logs[log] != "" || paths[path] != "" {
			t.Errorf("%s has the file of %s%s", a, logs[log], paths[path])
		}
		logs[log], paths[path] = a, a
		if err := writeSeen(store, a, Environment{Version: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range addresses {
		if e, err := Known(store, a); err != nil || e == nil || e.Version != fmt.Sprint(i) {
			t.Errorf("%s: %+v, %v", a, e, err)
		}
	}
}
