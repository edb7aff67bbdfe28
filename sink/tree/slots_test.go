package tree

import (
	"strings"
	"testing"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	text := "# by hand\nschema_version: 1\ndefaults:\n  vllm: {current: \"0.22.0\", previous: null}\n  trtllm: " +
		"{current: \"1.3.0rc20\", previous: null} # newest\noverrides:\n  a100_sxm:\n    vllm: {current: \"0.14.0\", " +
		"previous: null}\n"
	out, err := NextSlots([]byte(text), "h200_sxm", "vllm", "0.24.0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSlots(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := s.Overrides["h200_sxm"]["vllm"]
	if got.Current != "0.24.0" || *got.Previous != "0.22.0" || s.Defaults["vllm"].Current != "0.22.0" ||
		s.Overrides["a100_sxm"]["vllm"].Current != "0.14.0" {
		t.Errorf("%s", out)
	}
	if !strings.HasPrefix(string(out), "# by hand\n") || !strings.Contains(string(out), "# newest") {
		t.Errorf("comments are gone:\n%s", out)
	}
	if again, err := NextSlots(out, "h200_sxm", "vllm", "0.24.0"); err != nil || string(again) != string(out) {
		t.Errorf("%v\n%s", err, again)
	}
	if _, err := NextSlots(out, "h200_sxm", "vllm", "0.23.1"); err == nil ||
		!strings.Contains(err.Error(), "0.24.0 is current on h200_sxm, and 0.23.1 is older") {
		t.Errorf("%v", err)
	}
	if out, err = NextSlots(nil, "h200_sxm", "vllm", "0.24.0"); err != nil ||
		!strings.Contains(string(out), "vllm: {current: 0.24.0, previous: null}") {
		t.Errorf("%v\n%s", err, out)
	}
	for text, want := range map[string]string{
		"schema_version: 2\n": "schema_version is 2",
		"schema_version: 1\ndefault:\n  vllm: {current: x}\n": "field default not found",
		"schema_version: 1\ndefaults:\n  vllm: {current: null}\n": "defaults.vllm has no current " +
			"version",
		"schema_version: 1\noverrides: {h: {vllm: {current: 1.3.0rc2, previous: 1.3.0}}}\n": "overrides.h.vllm has the " +
			"previous version 1.3.0, which is not older",
		"schema_version: 1\ndefaults:\n  ~: {current: \"0.24.0\"}\n": "line 3: a key is null, empty or no scalar",
		"schema_version: 1\noverrides:\n  ? [h]\n  : {}\n":           "line 3: a key is null, empty or no scalar",
		"tables: [": "not a valid",
		"schema_version: 1\n---\ndefaults:\n  vllm: {current: \"0.24.0\"}\n": "several YAML documents",
	} {
		if _, err := ParseSlots([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestNextMetaRejectsAliases(t *testing.T) {
	t.Parallel()
	const head = "schema_version: 1\nruntime: {framework: VLLM, version: \"1\"}\n"
	for text, want := range map[string]string{
		head + "x: &x {a_perf: {status: complete}}\ntables: *x\n":            "m.yaml: line 4: it has an alias (*) or a merge (<<)",
		head + "tables: {a_perf: &a {status: complete}, b_perf: {<<: *a}}\n": "m.yaml: line 3: it has an alias",
		head + "tables: {~: {status: complete}}\n":                           "m.yaml: it is not a valid collection_meta.yaml: line 3: a key",
	} {
		rt := Runtime{Framework: "VLLM", Version: "1"}
		out, err := NextMeta([]byte(text), "m.yaml", rt, Update{Table: "c_perf", Entry: TableMeta{Status: Complete}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q\n%s", text, err, want, out)
		}
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	lanes, err := ParseLanes([]byte("sglang:\n  \"0.5.14\":\n    90: fa3\n    100: triton\n"))
	if err != nil || lanes[""]["sglang"]["0.5.14"]["90"] != "fa3" {
		t.Errorf("%v, %v", lanes, err)
	}
	byModel := "vllm: {\"0.25.0\": {90: fa3}}\narchitectures:\n  Qwen3_5MoeForCausalLM:\n    sglang: {\"0.5.17\": {90: " +
		"triton}}\n"
	lanes, err = ParseLanes([]byte(byModel))
	if err != nil || lanes[""]["vllm"]["0.25.0"]["90"] != "fa3" ||
		lanes["Qwen3_5MoeForCausalLM"]["sglang"]["0.5.17"]["90"] != "triton" {
		t.Errorf("%v, %v", lanes, err)
	}
	out, err := NextLanes([]byte("# cited\nvllm:\n  \"0.24.0\":\n    90: default # checked\n"), "sglang", "0.5.14",
		map[string]string{"90": "fa3", "100": "triton"})
	if err != nil || string(out) != "# cited\nvllm:\n  \"0.24.0\":\n    90: default # checked\nsglang:\n  0.5.14:\n    "+
		"100: triton\n    90: fa3\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = NextLanes(nil, "vllm", "0.24", map[string]string{"90": "default"}); err != nil ||
		string(out) != "vllm:\n  \"0.24\":\n    90: default\n" {
		t.Errorf("%v\n%s", err, out)
	}
	for text, want := range map[string]string{
		"":             "vllm:\n  \"0.24\":\n    90: default\n",
		"# none yet\n": "# none yet\n\nvllm:\n  \"0.24\":\n    90: default\n",
		"null\n":       "vllm:\n  \"0.24\":\n    90: default\n",
	} {
		out, err := NextLanes([]byte(text), "vllm", "0.24", map[string]string{"90": "default"})
		if err != nil || string(out) != want {
			t.Errorf("%q: %v\n%s", text, err, out)
		}
	}
	for text, want := range map[string]string{
		"sglang: {\"0.5.14\": {90: fa3}}\n---\nvllm: {}\n":          "several YAML documents",
		"sglang: {\"0.5.14\": {hopper: fa3}}":                       `the SM "hopper"`,
		"sglang: {\"0.5.14\": {90: \"\"}}":                          "names no kernel",
		"sglang: [fa3]":                                             "not a valid",
		"architectures: {A: {sglang: {\"0.5.14\": {hopper: fa3}}}}": `the SM "hopper"`,
	} {
		if _, err := ParseLanes([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
