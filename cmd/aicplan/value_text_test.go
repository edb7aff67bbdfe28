package main

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

func TestValueText(t *testing.T) {
	ref := cty.ObjectVal(map[string]cty.Value{
		"ref": cty.CapsuleVal(stage.RefType,
			&stage.Ref{Address: "collect.a", Kind: "collect"}), "rows": cty.UnknownVal(cty.Number),
	})
	for _, c := range []struct {
		v    cty.Value
		want string
	}{
		{cty.StringVal("a<b>\n\"é"), `"a<b>\n\"é"`},
		{cty.NumberIntVal(-7), "-7"},
		{cty.NumberFloatVal(0.25), "0.25"},
		{cty.MustParseNumberVal("9007199254740993"), "9007199254740993"},
		{cty.NullVal(cty.String), "null"},
		{cty.NilVal, afterApply},
		{cty.UnknownVal(cty.String), afterApply},
		{ref, "collect.a"},
		{cty.UnknownVal(ref.Type()), afterApply},
		{cty.EmptyObjectVal, "{}"},
		{cty.EmptyTupleVal, "[]"},
		{cty.ObjectVal(map[string]cty.Value{"b": ref, "a": cty.UnknownVal(cty.Number), "c": cty.NullVal(cty.Bool)}),
			`{"a":"(known after apply)","b":"collect.a","c":null}`},
		{cty.TupleVal([]cty.Value{cty.True, cty.ListValEmpty(cty.String),
			cty.MapVal(map[string]cty.Value{"k": cty.NumberIntVal(1)})}), `[true,[],{"k":1}]`},
	} {
		got := valueText(c.v, math.MaxInt)
		if got != c.want {
			t.Errorf("%#v is written %s, want %s", c.v, got, c.want)
		}
		if raw, err := json.Marshal(jsonValue(c.v)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestLongValueHasLines(t *testing.T) {
	v := cty.MapVal(map[string]cty.Value{"gemm": cty.StringVal("out/gemm_perf.txt"),
		"memory": cty.StringVal("out/memory_perf.txt")})
	want := "{\n    \"gemm\": \"out/gemm_perf.txt\",\n    \"memory\": \"out/memory_perf.txt\"\n  }"
	if got := valueText(v, 40); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
