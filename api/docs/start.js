// Starts Swagger UI on the gateway's own document. A file of its own: the page's
// Content-Security-Policy allows no script inside of it.
"use strict";

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  // No outside service is asked, and a token is forgotten with the page.
  validatorUrl: null,
  persistAuthorization: false,
});
