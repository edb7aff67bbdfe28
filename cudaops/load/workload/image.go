package workload

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
)

// randomImage returns a generated PNG as a data URL: a gradient with random colors.
func randomImage(random *rand.Rand, width, height int) string {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	r, g, b := uint8(random.IntN(256)), uint8(random.IntN(256)), uint8(random.IntN(256))
	for y := range height {
		for x := range width {
			img.SetRGBA(x, y, color.RGBA{r + uint8(x), g + uint8(y), b + uint8(x+y), 255})
		}
	}

	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic("workload: a generated image cannot be encoded: " + err.Error()) // its size was validated
	}
	return dataURL("image/png", out.Bytes())
}

func dataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}
