package failures

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// number matches the parts that vary between messages of one fault: addresses, digests,
// sizes (1x4353x2048), process ids. Other digits inside a word (fp8, sm90, H200) belong to it.
var number = regexp.MustCompile(`\b(0x[0-9a-fA-F]+|[0-9a-f]{16,}|[0-9]+(x[0-9]+)+|[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?)\b`)

// maxPattern is the number of bytes of a message that are compared.
const maxPattern = 4096

// Pattern is a message with its numbers replaced by #, so that messages of one
// fault are equal.
func Pattern(message string) string {
	message = strings.ToValidUTF8(message[:min(len(message), maxPattern)], "")
	return strings.Join(strings.Fields(number.ReplaceAllString(message, "#")), " ")
}

// Params writes parameters, a JSON object, as "m=1 n=128", in the object's
// order. Text that is no object is returned as it is.
func Params(object string) string {
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()

	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return object
	}

	var parts []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return object
		}

		var v any
		if err := d.Decode(&v); err != nil {
			return object
		}

		parts = append(parts, fmt.Sprintf("%v=%v", name, v))
	}

	return strings.Join(parts, " ")
}
