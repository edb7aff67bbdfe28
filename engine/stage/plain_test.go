package stage_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"aicplan/engine/stage"
)

// TestPlainNumbers: keys are made of them, so their text is cty's.
func TestPlainNumbers(t *testing.T) {
	t.Parallel()
	texts := []string{"0", "1", "-1", "5120", "1e3", "1.2", "-0.5", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "1e30", "1e-9"}
	values := []cty.Value{cty.NumberVal(new(big.Float).Neg(new(big.Float))), cty.NumberFloatVal(2),
		cty.NumberFloatVal(1e15)}
	for _, text := range texts {
		values = append(values, cty.MustParseNumberVal(text))
	}
	for _, v := range values {
		want, err := ctyjson.Marshal(v, cty.Number)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := stage.Plain(v).(json.Number); !ok || string(got) != string(want) {
			t.Errorf("%s is written as %s", want, got)
		}
	}
}
