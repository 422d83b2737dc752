"use strict";
// A link may carry a token behind "#": browsers send that part to nobody.
const form = document.getElementById("sign-in");
if (form && location.hash.startsWith("#token=")) {
  form.elements.token.value = decodeURIComponent(location.hash.slice(7));
  history.replaceState(null, "", location.pathname);
  form.submit();
}
