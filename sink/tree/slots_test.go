package tree

import (
	"strings"
	"testing"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	text := "schema_version: 1\ndefaults:\n  vllm: {current: \"0.22.0\", previous: null}\noverrides:\n  a100_sxm:\n    vllm: {current: \"0.14.0\", previous: null}\n"
	s, err := ParseSlots([]byte(text))
	if err != nil || s.Defaults["vllm"].Current != "0.22.0" || s.Overrides["a100_sxm"]["vllm"].Current != "0.14.0" {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"schema_version: 2\n": "schema_version is 2",
		"schema_version: 1\ndefault:\n  vllm: {current: x}\n":                               "field default not found",
		"schema_version: 1\ndefaults:\n  vllm: {current: null}\n":                           "defaults.vllm has no current version",
		"schema_version: 1\noverrides: {h: {vllm: {current: 1.3.0rc2, previous: 1.3.0}}}\n": "overrides.h.vllm has the previous version 1.3.0, which is not older",
		"tables: [": "not a valid",
	} {
		if _, err := ParseSlots([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	lanes, err := ParseLanes([]byte("sglang:\n  \"0.5.14\":\n    90: fa3\n    100: triton\n"))
	if err != nil || lanes[""]["sglang"]["0.5.14"]["90"] != "fa3" {
		t.Errorf("%v, %v", lanes, err)
	}
	byModel := "vllm: {\"0.25.0\": {90: fa3}}\narchitectures:\n  Qwen3_5MoeForCausalLM:\n    sglang: {\"0.5.17\": {90: triton}}\n"
	lanes, err = ParseLanes([]byte(byModel))
	if err != nil || lanes[""]["vllm"]["0.25.0"]["90"] != "fa3" ||
		lanes["Qwen3_5MoeForCausalLM"]["sglang"]["0.5.17"]["90"] != "triton" {
		t.Errorf("%v, %v", lanes, err)
	}
	for text, want := range map[string]string{
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
