// A file that is dropped on the page, or opened with the button, becomes the text.

const LARGEST_FILE = 256 << 10; // bytes that are shown; what is longer is cut, and said

export function acceptFiles(area, button, input, show) {
  const open = async (file) => {
    const bytes = new Uint8Array(await file.slice(0, LARGEST_FILE).arrayBuffer());
    const text = new TextDecoder("utf-8").decode(bytes, { stream: file.size > LARGEST_FILE }); // a cut character is left out
    const cut = file.size > LARGEST_FILE ? `, the first ${LARGEST_FILE.toLocaleString()} of ${file.size.toLocaleString()} bytes` : "";
    show(text, `${file.name}${cut}`);
  };
  area.addEventListener("dragover", (event) => { event.preventDefault(); area.classList.add("dropping"); });
  area.addEventListener("dragleave", () => area.classList.remove("dropping"));
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("dropping");
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => { if (input.files.length) open(input.files[0]); input.value = ""; });
}
