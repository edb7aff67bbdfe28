package checkpoint

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,"x"]}`:               `{"a":[true,null,"x"],"b":1}`,
		` { "a" : { "d":1 , "c":2 } } `:             `{"a":{"c":2,"d":1}}`,
		`[1.0,1,1e0,10e-1,0.1e1,100e-2]`:            `[1,1,1,1,1,1]`,
		`[0,-0,0.0,0e9,-0.0e-9]`:                    `[0,0,0,0,0]`,
		`[9007199254740993,9007199254740992]`:       `[9007199254740993,9007199254740992]`,
		`[0.1,1e-1,0.10]`:                           `[0.1,0.1,0.1]`,
		`[-12.50,1.5e3,1e20,123456789012345678901]`: `[-12.5,1500,100000000000000000000,123456789012345678901]`,
		`[1e21,1e22,1e300,1.5e-9,1e-400]`:           `[1e+21,1e+22,1e+300,1.5e-9,0]`,
		`[0.000001,0.0000001]`:                      `[0.000001,1e-7]`,
		`"<é>\u00e9\/"`:                             `"<éé>/"`,
	} {
		in = strings.Replace(in, `"<é>\u00e9\/"`, `"<é\u00e9>\/"`, 1)
		got, err := Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s\n got %s, %v\nwant %s", in, got, err, want)
		}
	}
	for _, bad := range []string{``, `{`, `1 2`} {
		if got, err := Canonical([]byte(bad)); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}

func TestKey(t *testing.T) {
	type config struct {
		Z int            `json:"z"`
		A map[string]any `json:"a"`
	}
	d1, c1, err := Key(config{Z: 1, A: map[string]any{"x": 2.0, "y": "s"}})
	if err != nil {
		t.Fatal(err)
	}
	d2, c2, err := Key(json.RawMessage(`{"a":{"y":"s","x":2},"z":1.0}`))
	if err != nil || d1 != d2 || string(c1) != string(c2) || !strings.HasPrefix(d1, "sha256:") {
		t.Errorf("%s %s\n%s %s, %v", d1, c1, d2, c2, err)
	}
	for _, v := range []any{config{Z: 2}, config{Z: 1}, config{Z: 1, A: map[string]any{"x": "2", "y": "s"}}} {
		if d, _, err := Key(v); err != nil || d == d1 {
			t.Errorf("%v has the key of another: %v", v, err)
		}
	}
	for _, v := range []any{math.NaN(), math.Inf(1), func() {}} {
		if _, _, err := Key(v); err == nil || !strings.Contains(err.Error(), "cannot hash") {
			t.Errorf("Key(%T) = %v", v, err)
		}
	}
}

// Canonical keeps the values of numbers and is idempotent.
func TestCanonicalNumbersKeepTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return
		}
		_, c, err := Key(f)
		if err != nil {
			t.Fatal(err)
		}
		var back float64
		if err := json.Unmarshal(c, &back); err != nil || back != f {
			t.Fatalf("%v became %s, %v", f, c, err)
		}
		if again, err := Canonical(c); err != nil || string(again) != string(c) {
			t.Fatalf("%s became %s, %v", c, again, err)
		}
		i := rapid.Int64().Draw(t, "i")
		_, c, err = Key(i)
		var n int64
		if err != nil || json.Unmarshal(c, &n) != nil || n != i {
			t.Fatalf("%d became %s, %v", i, c, err)
		}
	})
}

func TestExplain(t *testing.T) {
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	for _, tc := range []struct {
		name, old, new string
		want           []string
	}{
		{"same", `{"a":1,"b":[1,2]}`, `{"b":[1.0,2],"a":1}`, nil},
		{"nested", `{"measure":{"samples":6,"graph":"prefer"}}`, `{"measure":{"samples":12,"graph":"prefer"}}`,
			[]string{"measure.samples 6 -> 12"}},
		{"sorted", `{"z":1,"a":1}`, `{"z":2,"a":"x"}`, []string{`a 1 -> "x"`, "z 1 -> 2"}},
		{"added and removed", `{"a":1,"gone":{"x":1}}`, `{"a":1,"power":true}`,
			[]string{`gone removed (was {"x":1})`, "power added (true)"}},
		{"digests", `{"inputs":{"grid.gemm":"` + digest("a") + `"}}`, `{"inputs":{"grid.gemm":"` + digest("b") + `"}}`,
			[]string{"inputs.grid.gemm aaaaaaaaaaaa -> bbbbbbbbbbbb"}},
		{"short list", `{"ramp":[4,20]}`, `{"ramp":[4,20,100]}`, []string{"ramp [4,20] -> [4,20,100]"}},
		{"long list", `{"m":[1,2,4,8,16,32]}`, `{"m":[1,2,4,8,16,64,128]}`, []string{"m + 64, 128, - 32 (6 -> 7 values)"}},
		{"very long list", `{"m":[0]}`, `{"m":[1,2,3,4,5,6,7,8,9]}`,
			[]string{"m + 1, 2, 3, 4, 5 and 4 more, - 0 (1 -> 9 values)"}},
		{"order", `{"m":[1,2,3]}`, `{"m":[3,2,1]}`, []string{"m in another order"}},
		{"repeats", `{"m":[1,1,2,3,4]}`, `{"m":[1,2,3,4]}`, []string{"m - 1 (5 -> 4 values)"}},
		{"named", `{"filters":[{"name":"sm","keep":"a"},{"name":"int","keep":"b"}]}`,
			`{"filters":[{"name":"sm","keep":"c"},{"name":"new","keep":"d"}]}`,
			[]string{`filters.int removed (was {"keep":"b","name":"int"})`, `filters.new added ({"keep":"d","name":"new"})`,
				`filters.sm.keep "a" -> "c"`}},
		{"named order", `[{"name":"a"},{"name":"b"}]`, `[{"name":"b"},{"name":"a"}]`, []string{"inputs in another order"}},
		{"rows", `{"rows":[{"h":1},{"h":2}]}`, `{"rows":[{"h":1},{"h":3}]}`, []string{"rows[1].h 2 -> 3"}},
		{"more rows", `{"rows":[{"h":1}]}`, `{"rows":[{"h":0},{"h":1}]}`, []string{`rows [{"h":1}] -> [{"h":0},{"h":1}]`}},
		{"type", `{"a":{"b":1}}`, `{"a":[1]}`, []string{`a {"b":1} -> [1]`}},
		{"key with spaces", `{"env":{"a b":1}}`, `{"env":{"a b":2}}`, []string{`env["a b"] 1 -> 2`}},
		{"long text", `{"a":"x"}`, `{"a":"` + strings.Repeat("long ", 30) + `end"}`,
			[]string{`a "x" -> "long long long long long long long long long long long l...`}},
		{"null", `{"a":null}`, `{"a":0}`, []string{"a null -> 0"}},
		{"not JSON", `{`, `{}`,
			[]string{"the inputs are not readable: cannot hash: jsontext: unexpected EOF after offset 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Explain([]byte(tc.old), []byte(tc.new))); d != "" {
				t.Error(d)
			}
		})
	}
}

// Explain returns no lines if and only if the keys are equal.
func TestExplainAgreesWithKey(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any {
		return rapid.OneOf(
			rapid.IntRange(0, 2).AsAny(),
			rapid.SampledFrom([]string{"", "a"}).AsAny(), rapid.Just(any(nil)), rapid.Bool().AsAny(),
			rapid.SliceOfN(rapid.IntRange(0, 2), 0, 3).AsAny(),
			rapid.SliceOfN(rapid.MapOfN(rapid.SampledFrom([]string{"name", "x"}), rapid.SampledFrom([]string{"a", "b"}), 0, 2),
				0, 2).AsAny(),
			rapid.MapOfN(rapid.SampledFrom([]string{"k", "l"}), rapid.IntRange(0, 1), 0, 2).AsAny(),
		).Draw(t, "value")
	})
	object := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		ka, ca, err := Key(object.Draw(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		kb, cb, err := Key(object.Draw(t, "b"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := Explain(ca, cb); (len(lines) == 0) != (ka == kb) {
			t.Fatalf("%s\n%s\n%q", ca, cb, lines)
		}
	})
}
